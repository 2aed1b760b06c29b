// A prompt's text as hashes of its beginnings, so that two prompts can be compared without keeping
// either. A scheduler of many engines sees text, not tokens.
//
//   bytes   0    128   256          1024  1152          2048    2304
//           |-----|-----|--- ... ---|-----|--- ... ---|-------|--- ...
//           hashes   ^ of all that is before here, and of the model's name
//
// A block is an eighth of what is before it at most, and 128 bytes at least: what two prompts share
// is known to an eighth, and the longest has 64 hashes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace tandem {

// Of text, as far as one can tell without its tokenizer.
inline constexpr std::int64_t kBytesPerToken = 4;

// A beginning of a prompt.
struct PromptBlock {
  std::uint64_t hash = 0;   // of the model's name and all text up to here
  std::int64_t tokens = 0;  // up to here

  bool operator==(const PromptBlock&) const = default;
};

// Reads a prompt once, in pieces. Not thread-safe.
class PromptHasher {
 public:
  static constexpr std::size_t kMostBytes = 128U << 10;  // of a prompt; what follows is not hashed

  // `key`: a secret of the process, without which nobody can aim at collisions. They would make a
  // scheduler believe that an engine has a prompt which it has not: that costs time, no more.
  PromptHasher(std::uint64_t key, std::string_view model);

  void add(std::string_view text);
  bool is_full() const { return size_ == kMostBytes; }
  // In the order of their lengths; what is behind the last whole block is in none.
  std::vector<PromptBlock> take() { return std::move(blocks_); }

 private:
  std::uint64_t state_;
  std::uint64_t word_ = 0;     // the last eight bytes
  std::size_t size_ = 0;       // bytes read
  std::size_t block_end_ = 0;  // of the block that is being read
  std::vector<PromptBlock> blocks_;
};

}  // namespace tandem
