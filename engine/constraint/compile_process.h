// An engine's end of a process that compiles constraints for it (compile_worker.h): started when it
// is first needed, killed at a deadline, started again.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/status.h"
#include "cpu_lora/worker_pool/process.h"
#include "cpu_lora/worker_pool/process_wait.h"
#include "engine/constraint/compile_frame.h"
#include "engine/service/generation.h"

namespace tandem {

class GrammarBackend;

struct CompileLimits {
  Duration cpu = {};             // processor time of a constraint
  std::size_t memory_bytes = 0;  // of the process, its vocabulary included
};

struct CompileAnswer {
  enum class Kind {
    compiled,     // text: encode_grammar()
    refused,      // text: why
    exceeded,     // one of the limits; text: which
    crashed,      // the process ended over it; text: how
    late,         // the deadline
    unavailable,  // there is no process; text: why
    cancelled,    // by cancel()
  };
  Kind kind;
  std::string text = {};
};

// For one thread, but for cancel(); the process lives no longer than that.
class CompileProcess {
 public:
  // `program`: whose `constraint-worker` command is run; empty: this very program. The backend
  // outlives it.
  static Result<std::unique_ptr<CompileProcess>> create(std::string program,
                                                        const CompileLimits& limits,
                                                        GrammarBackend& backend);
  ~CompileProcess();

  CompileAnswer compile(const TextConstraint& constraint, TimePoint deadline);
  // Before the next constraint comes, where there is no process now. Does not wait for it.
  void start_ahead();
  // Any thread: whatever is waited for now or later ends at once.
  void cancel();
  // Of the process; 0: there is none. The thread of compile().
  pid_t pid() const { return child_ ? child_->pid() : 0; }

 private:
  CompileProcess(std::string program, const CompileLimits& limits, GrammarBackend& backend,
                 ProcessWait wait);
  Status start();
  // Nothing: it is ready.
  std::optional<CompileAnswer> await_ready(TimePoint deadline);
  bool send(FrameKind kind, std::string_view bytes);
  enum class Received { frame, ended, late, cancelled };
  Received receive(FrameHead& head, std::string& bytes, TimePoint deadline);
  Received receive_exactly(char* to, std::size_t bytes, TimePoint deadline);
  // How the process ended, which it has, or is made to.
  std::string end();
  CompileAnswer ended_over_constraint();
  void release();

  const std::string program_;
  const CompileLimits limits_;
  GrammarBackend* backend_;
  ProcessWait wait_;
  std::atomic<bool> cancelled_ = false;
  std::optional<ChildProcess> child_;
  int channel_ = -1;
  bool is_ready_ = false;
};

}  // namespace tandem
