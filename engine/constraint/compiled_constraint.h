// What the compiler makes of a constraint: immutable but for one mark, shared by all sequences that
// are held to it. The one header that shows XGrammar's; others know the class by name.
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

  // A step took too long over it: nobody else begins with it. Any thread; relaxed, as a request
  // more or less does no harm.
  void condemn() const { condemned_.store(true, std::memory_order_relaxed); }
  bool condemned() const { return condemned_.load(std::memory_order_relaxed); }

 private:
  xgrammar::CompiledGrammar grammar_;
  std::size_t bytes_;
  mutable std::atomic<bool> condemned_{false};
};

}  // namespace tandem
