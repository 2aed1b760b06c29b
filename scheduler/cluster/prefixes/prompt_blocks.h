// Hashes of the beginnings of a prompt's text, which allow comparing prompts without storing them.
// A scheduler of many engines has the text and not the tokens.
//
//   bytes   0    128   256          1024  1152          2048    2304
//           |-----|-----|--- ... ---|-----|--- ... ---|-------|--- ...
//           hashes   ^ of all text up to here, and of the model's name
//
// A block has at most an eighth of the bytes before it and at least 128 bytes: the length that two
// prompts share is known to an eighth, and the longest prompt has 64 hashes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace tandem {

// An estimate for text without its tokenizer.
inline constexpr std::int64_t kBytesPerToken = 4;

// A beginning of a prompt.
struct PromptBlock {
  std::uint64_t hash = 0;   // of the model's name and all text up to the block's end
  std::int64_t tokens = 0;  // estimated up to the block's end

  bool operator==(const PromptBlock&) const = default;
};

// Reads a prompt once, in pieces. Not thread-safe.
class PromptHasher {
 public:
  // Limit per prompt; further bytes are not hashed.
  static constexpr std::size_t kMostBytes = 128U << 10;

  // `key`: a secret of the process, so that clients cannot construct collisions. A collision would
  // let a scheduler assume that an engine has a prompt that it does not have, which only costs
  // time.
  PromptHasher(std::uint64_t key, std::string_view model);

  void add(std::string_view text);
  bool is_full() const { return size_ == kMostBytes; }
  // The blocks, shortest beginning first; bytes after the last whole block are in none.
  std::vector<PromptBlock> take() { return std::move(blocks_); }

 private:
  std::uint64_t state_;
  std::uint64_t word_ = 0;     // the last eight bytes
  std::size_t size_ = 0;       // bytes read
  std::size_t block_end_ = 0;  // end of the block that is being read
  std::vector<PromptBlock> blocks_;
};

}  // namespace tandem
