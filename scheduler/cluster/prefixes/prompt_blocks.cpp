#include "scheduler/cluster/prefixes/prompt_blocks.h"

#include <algorithm>
#include <bit>

#include "scheduler/cluster/policies/policy.h"

namespace tandem {
namespace {

constexpr std::size_t kWordBytes = 8;
constexpr std::size_t kLeastBlock = 128;
constexpr std::size_t kBlocksInADoubling = 8;

// The end of the block that begins here; block boundaries are the same in every prompt.
std::size_t end_of_block(std::size_t begin) {
  return begin + std::max(kLeastBlock, std::bit_floor(begin) / kBlocksInADoubling);
}

static_assert(kLeastBlock % kWordBytes == 0);  // so that each block ends with a whole word

}  // namespace

PromptHasher::PromptHasher(std::uint64_t key, std::string_view model)
    : state_(mix_hash(key, model.size())), block_end_(end_of_block(0)) {
  for (const char c : model) state_ = mix_hash(state_, static_cast<unsigned char>(c));
}

void PromptHasher::add(std::string_view text) {
  for (const char c : text.substr(0, kMostBytes - size_)) {
    word_ = word_ << 8 | static_cast<unsigned char>(c);
    if (++size_ % kWordBytes != 0) continue;
    state_ = mix_hash(state_, word_);
    if (size_ != block_end_) continue;
    blocks_.push_back({state_, static_cast<std::int64_t>(size_) / kBytesPerToken});
    block_end_ = end_of_block(size_);
  }
}

}  // namespace tandem
