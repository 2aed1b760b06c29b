// Compiles constraints: checks them, compiles them in separate processes (compile_worker.h), caches
// the results, and gives up on those that take too long.
//
//   compile() -> cache ..................................... -> done, before it returns
//             -> check_constraint -> quick lane ............ -> done, from its thread
//                                    not done by then: slow lane -> done, from its thread
//
// Each lane is a thread with a process. The quick lane gives each constraint a short time, which
// suffices for nearly all. The others start again in the slow lane, so that they delay only other
// slow ones. A process that exceeds a limit is killed with all of its state and replaced. A lane
// starts with the first constraint that needs it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/ids/token_id.h"
#include "base/status.h"
#include "engine/constraint/compile_process.h"
#include "engine/service/generation.h"
#include "engine/tokenizer/tokenizer.h"

namespace tandem {

struct ConstraintOptions {
  std::size_t cache_bytes = std::size_t{64} << 20;  // size limit of the cache
  Duration deadline = std::chrono::seconds(10);     // from compile() to `done`
  CompileLimits quick = {std::chrono::milliseconds(300), std::size_t{256} << 20};
  CompileLimits slow = {std::chrono::seconds(8), std::size_t{512} << 20};
  std::size_t max_waiting = 64;  // per lane; more are refused
  // The program whose `constraint-worker` command the processes run; empty: this program itself.
  // Unset: no processes and no limits, the lane's thread compiles (for tests of other parts).
  std::optional<std::string> program;
};

// Thread-safe.
class ConstraintCompiler {
 public:
  using Compiled = std::shared_ptr<const CompiledConstraint>;
  using Done = std::function<void(Result<Compiled>)>;

  // The first three arguments are those of GrammarBackend.
  ConstraintCompiler(const Tokenizer& tokenizer, std::int32_t vocab_size,
                     std::vector<TokenId> end_tokens, const ConstraintOptions& options);
  // Ends all waiting jobs with the error that it is shutting down, and kills the processes.
  ~ConstraintCompiler();

  // Calls `done` once, on this thread or on another; it must be quick and may not throw. Equal
  // constraints requested at the same time are compiled once. Errors: invalid_argument with the
  // reason or the exceeded limit; resource_exhausted: too many jobs at once; unavailable: no
  // process can be started.
  void compile(const TextConstraint& constraint, Done done);
  // Compiles and blocks until it is done.
  Result<Compiled> compile_now(const TextConstraint& constraint);

 private:
  class Lanes;
  std::unique_ptr<Lanes> lanes_;
};

}  // namespace tandem
