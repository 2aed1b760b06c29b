// The pages that sequences take from the prefix cache, and offer to it.
//
// An admitted sequence starts after its longest prefix in the cache, which may include its own
// pages from before a preemption. Every sequence offers its whole pages as soon as their step is
// planned, so that two sequences admitted in one step share pages already.
#pragma once

#include <cstdint>

#include "engine/batching/batch/admission_gate.h"
#include "engine/batching/line/sequence.h"
#include "engine/memory/prefix_cache.h"

namespace tandem {

class PrefixReuse {
 public:
  // The cache outlives it; null: nothing is found, and nothing offered.
  explicit PrefixReuse(PrefixCache* cache) : cache_(cache) {}
  void set_gate(const AdmissionGate& gate) { gate_ = &gate; }

  // Gives a sequence without pages those of its longest prefix. Throws if memory runs out.
  void find(Sequence& sequence) const;
  // Counts what was found for a sequence that is about to be admitted, if for the first time.
  void note_found(Sequence& sequence);
  // Offers the whole pages of its first `computed` tokens. Ignores a lack of memory: other
  // sequences compute the tokens themselves then.
  void offer(Sequence& sequence, std::int64_t computed) const;

  // Sums over all first admissions: prompt tokens looked up, and found.
  std::uint64_t queries() const { return queries_; }
  std::uint64_t hits() const { return hits_; }

 private:
  PrefixCache* cache_;
  const AdmissionGate* gate_ = nullptr;  // null: no result is in doubt
  std::uint64_t queries_ = 0;
  std::uint64_t hits_ = 0;
};

}  // namespace tandem
