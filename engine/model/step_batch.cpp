#include "engine/model/step_batch.h"

#include <algorithm>
#include <cstring>

#include "engine/base/check.h"

namespace tandem {
namespace {

constexpr std::size_t kAlignment = 64;

std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

template <typename T>
std::size_t room(std::int64_t count) {
  return aligned(static_cast<std::size_t>(count) * sizeof(T));
}

// Packs arrays into the pinned block, one after another, and tells where each will be on the
// device. The regions are as large as the limits allow, so that addresses stay the same.
class Packer {
 public:
  Packer(std::byte* pinned, std::byte* device) : pinned_(pinned), device_(device) {}

  template <typename T>
  const T* put(const std::vector<T>& values, std::int64_t capacity) {
    TANDEM_CHECK(static_cast<std::int64_t>(values.size()) <= capacity, "{} of {}", values.size(),
                 capacity);
    if (!values.empty()) {
      std::memcpy(pinned_ + offset_, values.data(), values.size() * sizeof(T));
      used_ = offset_ + values.size() * sizeof(T);
    }
    const auto* result = reinterpret_cast<const T*>(device_ + offset_);
    offset_ += room<T>(capacity);
    return result;
  }
  std::size_t used() const { return used_; }

 private:
  std::byte* pinned_;
  std::byte* device_;
  std::size_t offset_ = 0;
  std::size_t used_ = 0;
};

}  // namespace

Result<StepBatch> StepBatch::create(Device& device, const StepLimits& limits) {
  TANDEM_CHECK(limits.max_rows > 0 && limits.max_sequences > 0 && limits.max_samples > 0);
  StepBatch batch;
  batch.limits_ = limits;
  const std::size_t bytes =
      4 * room<std::int32_t>(limits.max_rows) + room<AttentionSequence>(limits.max_sequences) +
      room<LoraSegment>(limits.max_sequences) + room<std::int32_t>(limits.max_samples) +
      room<SampleRow>(limits.max_samples) + room<TokenBias>(limits.max_biases) +
      room<std::int32_t>(limits.max_pages) + room<std::int32_t>(limits.max_history);
  TANDEM_ASSIGN(batch.pinned_, device.allocate_pinned(bytes, "step metadata"));
  TANDEM_ASSIGN(batch.device_, device.allocate(bytes, "step metadata"));
  return batch;
}

void StepBatch::clear() {
  for (auto* list :
       {&ids_, &positions_, &slots_, &page_ids_, &lora_rows_, &sample_rows_, &history_}) {
    list->clear();
  }
  sequences_.clear();
  segments_.clear();
  samples_.clear();
  biases_.clear();
  adapters_.clear();
  max_rank_ = 0;
}

std::int32_t StepBatch::add_sequence(std::span<const std::int32_t> tokens, std::int64_t start,
                                     std::span<const PageId> pages, std::int32_t page_tokens,
                                     AdapterSlot adapter) {
  const std::int32_t first = num_rows();
  const auto count = static_cast<std::int32_t>(tokens.size());
  const std::int64_t end = start + count;
  const auto num_pages = static_cast<std::size_t>((end + page_tokens - 1) / page_tokens);
  TANDEM_CHECK(count > 0 && count <= rows_left(), "{} rows, {} left", count, rows_left());
  TANDEM_CHECK(num_pages <= pages.size(), "{} pages for {} tokens", pages.size(), end);
  for (std::int64_t position = start; position < end; ++position) {
    const PageId page = pages[static_cast<std::size_t>(position / page_tokens)];
    positions_.push_back(static_cast<std::int32_t>(position));
    slots_.push_back(page * page_tokens + static_cast<std::int32_t>(position % page_tokens));
  }
  ids_.insert(ids_.end(), tokens.begin(), tokens.end());
  sequences_.push_back(
      {first, count, static_cast<std::int32_t>(end), static_cast<std::int32_t>(page_ids_.size())});
  page_ids_.insert(page_ids_.end(), pages.begin(),
                   pages.begin() + static_cast<std::ptrdiff_t>(num_pages));
  if (adapter.slot >= 0) adapters_.push_back({adapter, first, count});
  return first;
}

void StepBatch::add_sample(std::int32_t row, SampleRow how, std::span<const std::int32_t> history,
                           std::span<const TokenBias> biases) {
  TANDEM_CHECK(row >= 0 && row < num_rows() && samples_left() > 0, "row {}", row);
  how.history = static_cast<std::int32_t>(history_.size());
  how.history_len = static_cast<std::int32_t>(history.size());
  how.bias = static_cast<std::int32_t>(biases_.size());
  how.num_biases = static_cast<std::int32_t>(biases.size());
  history_.insert(history_.end(), history.begin(), history.end());
  biases_.insert(biases_.end(), biases.begin(), biases.end());
  sample_rows_.push_back(row);
  samples_.push_back(how);
}

// Segments in the order of slots, so that the same mix of adapters gives the same launch.
void StepBatch::group_rows_by_adapter() {
  std::stable_sort(adapters_.begin(), adapters_.end(),
                   [](const SequenceAdapter& a, const SequenceAdapter& b) {
                     return a.adapter.slot < b.adapter.slot;
                   });
  for (const SequenceAdapter& each : adapters_) {
    const auto first = static_cast<std::int32_t>(lora_rows_.size());
    if (segments_.empty() || segments_.back().slot != each.adapter.slot) {
      segments_.push_back({each.adapter.slot, first, 0});
    }
    for (std::int32_t i = 0; i < each.num_rows; ++i) lora_rows_.push_back(each.first_row + i);
    segments_.back().count += each.num_rows;
    max_rank_ = std::max(max_rank_, each.adapter.max_rank);
  }
}

StepInput StepBatch::upload(Stream& stream) {
  group_rows_by_adapter();
  StepInput input;
  Packer packer(pinned_.data(), device_.data());
  input.num_rows = num_rows();
  input.ids = packer.put(ids_, limits_.max_rows);
  input.positions = packer.put(positions_, limits_.max_rows);
  input.slots = packer.put(slots_, limits_.max_rows);
  input.lora_rows = packer.put(lora_rows_, limits_.max_rows);
  input.num_lora_rows = static_cast<std::int32_t>(lora_rows_.size());
  input.sequences = packer.put(sequences_, limits_.max_sequences);
  input.host_sequences = sequences_.data();
  input.num_sequences = static_cast<std::int32_t>(sequences_.size());
  input.segments = packer.put(segments_, limits_.max_sequences);
  input.num_segments = static_cast<std::int32_t>(segments_.size());
  input.max_rank = max_rank_;
  input.sample_rows = packer.put(sample_rows_, limits_.max_samples);
  input.samples = packer.put(samples_, limits_.max_samples);
  input.num_samples = num_samples();
  input.biases = packer.put(biases_, limits_.max_biases);
  input.page_ids = packer.put(page_ids_, limits_.max_pages);
  input.history = packer.put(history_, limits_.max_history);  // last: the largest, mostly empty
  for (const AttentionSequence& sequence : sequences_) {
    input.max_rows = std::max(input.max_rows, sequence.num_rows);
    input.max_kv_len = std::max(input.max_kv_len, sequence.kv_len);
  }
  if (packer.used() > 0) stream.copy_to_device(device_.data(), pinned_.data(), packer.used());
  return input;
}

}  // namespace tandem
