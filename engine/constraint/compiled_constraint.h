// A compiled constraint: immutable but for one flag, shared by all sequences with this constraint.
// This is the only header that includes XGrammar's headers; others use a forward declaration.
#pragma once

#include <xgrammar/compiler.h>

#include <atomic>
#include <cstddef>
#include <utility>

namespace tandem {

class CompiledConstraint {
 public:
  explicit CompiledConstraint(xgrammar::CompiledGrammar grammar)
      : grammar_(std::move(grammar)), bytes_(grammar_.MemorySizeBytes()) {}

  const xgrammar::CompiledGrammar& grammar() const { return grammar_; }
  std::size_t bytes() const { return bytes_; }

  // Blocks new sequences from using the constraint after a step took too long over it. Thread-safe;
  // relaxed, because one request more or less does no harm.
  void condemn() const { condemned_.store(true, std::memory_order_relaxed); }
  bool condemned() const { return condemned_.load(std::memory_order_relaxed); }

 private:
  xgrammar::CompiledGrammar grammar_;
  std::size_t bytes_;
  mutable std::atomic<bool> condemned_{false};
};

}  // namespace tandem
