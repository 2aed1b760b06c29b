// A flat hash map from 64-bit keys to 64-bit values, for the lookups per pair during encoding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tandem {

// Built once, then read by any thread. ~0 is not a valid key.
class IdMap {
 public:
  static constexpr std::uint64_t kNoKey = ~std::uint64_t{0};

  explicit IdMap(std::size_t expected = 0) { reserve(expected); }

  // Inserts or overwrites.
  void set(std::uint64_t key, std::uint64_t value) {
    if ((size_ + 1) * 2 > slots_.size()) reserve(size_ * 2 + 8);
    Slot& slot = slots_[index_of(key)];
    if (slot.key == kNoKey) ++size_;
    slot = {key, value};
  }
  // Returns the value; null if there is none.
  const std::uint64_t* find(std::uint64_t key) const {
    const Slot& slot = slots_[index_of(key)];
    return slot.key == kNoKey ? nullptr : &slot.value;
  }

 private:
  struct Slot {
    std::uint64_t key = kNoKey, value = 0;
  };
  // Returns the slot of the key, or the free slot for it. At most half of the slots are used.
  std::size_t index_of(std::uint64_t key) const {
    std::size_t i = static_cast<std::size_t>((key * 0x9E3779B97F4A7C15U) >> shift_);
    while (slots_[i].key != key && slots_[i].key != kNoKey) i = (i + 1) & (slots_.size() - 1);
    return i;
  }
  void reserve(std::size_t expected) {
    unsigned bits = 4;
    while ((std::size_t{1} << bits) < expected * 2) ++bits;
    std::vector<Slot> old(std::size_t{1} << bits);
    old.swap(slots_);
    shift_ = 64 - bits;
    for (const Slot& slot : old)
      if (slot.key != kNoKey) slots_[index_of(slot.key)] = slot;
  }

  std::vector<Slot> slots_;
  std::size_t size_ = 0;
  unsigned shift_ = 0;
};

}  // namespace tandem
