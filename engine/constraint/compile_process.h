// The engine's handle of a process that compiles constraints (compile_worker.h). The process is
// started on first use, killed at a deadline, and restarted.
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
  Duration cpu = {};             // processor time for one constraint
  std::size_t memory_bytes = 0;  // memory of the process, including its vocabulary
};

struct CompileAnswer {
  enum class Kind {
    compiled,     // text: the result of encode_grammar()
    refused,      // text: the reason
    exceeded,     // a limit was exceeded; text: which one
    crashed,      // the constraint ended the process; text: how
    late,         // the deadline was missed
    unavailable,  // there is no process; text: the reason
    cancelled,    // ended by cancel()
  };
  Kind kind;
  std::string text = {};
};

// Single-threaded, except for cancel(). The process ends with that thread.
class CompileProcess {
 public:
  // Runs the `constraint-worker` command of `program`; empty: of this program itself. The backend
  // must outlive it.
  static Result<std::unique_ptr<CompileProcess>> create(std::string program,
                                                        const CompileLimits& limits,
                                                        GrammarBackend& backend);
  ~CompileProcess();

  CompileAnswer compile(const TextConstraint& constraint, TimePoint deadline);
  // Starts the process before the next constraint arrives, if it is not running. Returns at once.
  void start_ahead();
  // May be called on any thread: ends the current wait, and all later ones, at once.
  void cancel();
  // Returns the pid of the process; 0 if there is none. Only on the thread that calls compile().
  pid_t pid() const { return child_ ? child_->pid() : 0; }

 private:
  CompileProcess(std::string program, const CompileLimits& limits, GrammarBackend& backend,
                 ProcessWait wait);
  Status start();
  // Returns nothing if the process is ready, else the failure.
  std::optional<CompileAnswer> await_ready(TimePoint deadline);
  bool send(FrameKind kind, std::string_view bytes);
  enum class Received { frame, ended, late, cancelled };
  Received receive(FrameHead& head, std::string& bytes, TimePoint deadline);
  Received receive_exactly(char* to, std::size_t bytes, TimePoint deadline);
  // Ends the process if it is still running, and returns how it ended.
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
