// From constraints to what sequences are held to: checked, compiled by threads of its own, kept for
// those who ask for the same again, and given up on when it takes too long.
//
//   compile() -> cache ........................................ -> done, before it returns
//             -> check_constraint -> queue -> a thread: GrammarBackend -> done, from that thread
//                                         -> deadline ............... -> done, from the keeper
//
// A compilation cannot be interrupted. One that has exceeded the deadline goes on alone, another
// thread takes its place, and what comes of it is kept; of such there are a few at most, and then
// constraints that are not in the cache are refused until one ends. Threads begin with the first
// constraint.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "base/token_id.h"
#include "engine/service/generation.h"
#include "engine/tokenizer/tokenizer.h"

namespace tandem {

struct ConstraintOptions {
  std::size_t cache_bytes = std::size_t{64} << 20;  // of compiled constraints
  Duration deadline = std::chrono::seconds(10);     // from compile() to its answer
  std::int32_t threads = 2;
  std::size_t max_waiting = 64;  // for a thread; more are refused
};

// Thread-safe.
class ConstraintCompiler {
 public:
  using Compiled = std::shared_ptr<const CompiledConstraint>;
  using Done = std::function<void(Result<Compiled>)>;

  // See GrammarBackend for the first three.
  ConstraintCompiler(const Tokenizer& tokenizer, std::int32_t vocab_size,
                     std::vector<TokenId> end_tokens, const ConstraintOptions& options);
  // Those who wait are told that it is shutting down. Waits for threads at work, for a moment; one
  // that does not end by then is left behind.
  ~ConstraintCompiler();

  // Calls `done` once, from here or from another thread; it must be quick and may not throw. Equal
  // constraints that are asked for at the same time are compiled once. Errors: invalid_argument
  // with what is wrong with it; resource_exhausted: too many at once.
  void compile(const TextConstraint& constraint, Done done);
  // Waits for it.
  Result<Compiled> compile_now(const TextConstraint& constraint);

 private:
  class Shared;
  std::shared_ptr<Shared> shared_;  // with its threads, which may outlive us
};

}  // namespace tandem
