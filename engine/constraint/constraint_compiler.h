// From constraints to what sequences are held to: checked, compiled by processes of their own
// (compile_worker.h), kept for those who ask for the same again, and given up on when it takes too
// long.
//
//   compile() -> cache ..................................... -> done, before it returns
//             -> check_constraint -> quick lane ............ -> done, from its thread
//                                    not done by then: slow lane -> done, from its thread
//
// Each lane is a thread with a process. The quick one gives a constraint a moment, in which nearly
// all are done; the others begin again in the slow one, where they hold up only their like. A
// process that exceeds a limit is gone with all that it did, and another takes its place. Lanes
// begin with the first constraint that needs them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "base/token_id.h"
#include "engine/constraint/compile_process.h"
#include "engine/service/generation.h"
#include "engine/tokenizer/tokenizer.h"

namespace tandem {

struct ConstraintOptions {
  std::size_t cache_bytes = std::size_t{64} << 20;  // of compiled constraints
  Duration deadline = std::chrono::seconds(10);     // from compile() to its answer
  CompileLimits quick = {std::chrono::milliseconds(300), std::size_t{256} << 20};
  CompileLimits slow = {std::chrono::seconds(8), std::size_t{512} << 20};
  std::size_t max_waiting = 64;  // for a lane; more are refused
  // Whose `constraint-worker` command the processes run; empty: this very program. None: no
  // processes, and no limits: constraints are compiled by the lane's thread (tests of other
  // things).
  std::optional<std::string> program;
};

// Thread-safe.
class ConstraintCompiler {
 public:
  using Compiled = std::shared_ptr<const CompiledConstraint>;
  using Done = std::function<void(Result<Compiled>)>;

  // See GrammarBackend for the first three.
  ConstraintCompiler(const Tokenizer& tokenizer, std::int32_t vocab_size,
                     std::vector<TokenId> end_tokens, const ConstraintOptions& options);
  // Those who wait are told that it is shutting down. The processes are killed.
  ~ConstraintCompiler();

  // Calls `done` once, from here or from another thread; it must be quick and may not throw. Equal
  // constraints that are asked for at the same time are compiled once. Errors: invalid_argument
  // with what is wrong with it, or which limit it exceeded; resource_exhausted: too many at once;
  // unavailable: no process can be started.
  void compile(const TextConstraint& constraint, Done done);
  // Waits for it.
  Result<Compiled> compile_now(const TextConstraint& constraint);

 private:
  class Lanes;
  std::unique_ptr<Lanes> lanes_;
};

}  // namespace tandem
