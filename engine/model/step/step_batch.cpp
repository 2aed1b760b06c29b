#include "engine/model/step/step_batch.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <tuple>

#include "base/check.h"

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

// Packs arrays into a block of host memory, one after another, and returns their addresses on the
// device. The place of an array depends only on the lengths of those before it.
class Packer {
 public:
  // `pinned` null: nothing is written.
  Packer(std::byte* pinned, std::byte* device) : pinned_(pinned), device_(device) {}

  template <typename T>
  const T* put(const std::vector<T>& values, std::int64_t capacity) {
    TANDEM_CHECK(static_cast<std::int64_t>(values.size()) <= capacity, "{} of {}", values.size(),
                 capacity);
    const std::size_t bytes = values.size() * sizeof(T);
    if (pinned_ != nullptr && bytes > 0) std::memcpy(pinned_ + offset_, values.data(), bytes);
    const auto* result = reinterpret_cast<const T*>(device_ + offset_);
    offset_ += aligned(bytes);
    return result;
  }
  // Reserves space for `capacity` values, so that the next array's place does not depend on
  // `values`.
  template <typename T>
  const T* put_with_room(const std::vector<T>& values, std::int64_t capacity) {
    const std::size_t end = offset_ + room<T>(capacity);
    const T* const result = put(values, capacity);
    offset_ = end;
    return result;
  }
  std::size_t used() const { return offset_; }

 private:
  std::byte* pinned_;
  std::byte* device_;
  std::size_t offset_ = 0;
};

}  // namespace

Result<StepBatch> StepBatch::create(Device& device, const StepLimits& limits) {
  TANDEM_CHECK(limits.max_rows > 0 && limits.max_sequences > 0 && limits.max_samples > 0 &&
               limits.page_groups > 0);
  StepBatch batch;
  batch.limits_ = limits;
  batch.slots_.resize(static_cast<std::size_t>(limits.page_groups));
  batch.page_ids_.resize(static_cast<std::size_t>(limits.page_groups));
  const auto groups = static_cast<std::size_t>(limits.page_groups);
  const std::size_t bytes =
      (5 + groups) * room<std::int32_t>(limits.max_rows) +
      room<AttentionSequence>(limits.max_sequences) + 2 * room<LoraSegment>(limits.max_sequences) +
      3 * room<std::int32_t>(limits.max_samples) + room<ColdGroup>(kMaxColdGroups) +
      room<std::uint32_t>(kMaxColdGroups) + room<OfferDescriptor>(limits.max_offers) +
      room<SampleRow>(limits.max_samples) + room<TokenBias>(limits.max_biases) +
      groups * room<std::int32_t>(limits.max_pages) + room<std::int32_t>(limits.max_history);
  for (Staging& staging : batch.staging_) {
    TANDEM_ASSIGN(staging.pinned, device.allocate_pinned(bytes, "step metadata"));
    staging.copied = device.create_event();
  }
  TANDEM_ASSIGN(batch.device_, device.allocate(bytes, "step metadata"));
  TANDEM_ASSIGN(batch.live_,
                device.allocate(room<LoraSegment>(limits.max_sequences), "step metadata"));
  return batch;
}

void StepBatch::clear() {
  for (auto* list : {&ids_, &positions_, &lengths_, &lora_rows_, &sample_rows_, &history_,
                     &sampled_lora_rows_, &row_slots_, &sampled_slots_}) {
    list->clear();
  }
  for (auto* groups : {&slots_, &page_ids_}) {
    for (std::vector<std::int32_t>& list : *groups) list.clear();
  }
  sequences_.clear();
  filled_.clear();
  segments_.clear();
  sampled_segments_.clear();
  samples_.clear();
  biases_.clear();
  adapters_.clear();
  cold_.clear();
  groups_.clear();
  timed_out_.clear();
  descriptors_.clear();
  halved_ = {};
  bounds_ = {};
}

std::int32_t StepBatch::add_sequence(std::span<const std::int32_t> tokens, std::int64_t start,
                                     std::span<const PageId> pages, std::int32_t page_tokens,
                                     AdapterSlot adapter, std::int64_t rotary_length,
                                     std::int32_t first_adapted) {
  const std::int32_t first = num_rows();
  const auto count = static_cast<std::int32_t>(tokens.size());
  const std::int64_t end = start + count;
  const auto num_pages = static_cast<std::size_t>((end + page_tokens - 1) / page_tokens);
  TANDEM_CHECK(bounds_.rows == 0, "the batch is padded");
  TANDEM_CHECK(count > 0 && count <= rows_left(), "{} rows, {} left", count, rows_left());
  const std::size_t table = pages.size() / page_ids_.size();
  TANDEM_CHECK(num_pages <= table && table * page_ids_.size() == pages.size(),
               "{} pages of {} groups for {} tokens", pages.size(), page_ids_.size(), end);
  const auto first_page = static_cast<std::int32_t>(page_ids_.front().size());
  for (std::size_t group = 0; group < page_ids_.size(); ++group) {
    const std::span<const PageId> of_group = pages.subspan(group * table, num_pages);
    for (std::int64_t position = start; position < end; ++position) {
      const PageId page = of_group[static_cast<std::size_t>(position / page_tokens)];
      slots_[group].push_back(page.value() * page_tokens +
                              static_cast<std::int32_t>(position % page_tokens));
    }
    for (const PageId page : of_group) page_ids_[group].push_back(page.value());
  }
  for (std::int64_t position = start; position < end; ++position) {
    positions_.push_back(static_cast<std::int32_t>(position));
    lengths_.push_back(static_cast<std::int32_t>(std::max(position + 1, rotary_length)));
  }
  ids_.insert(ids_.end(), tokens.begin(), tokens.end());
  const std::int64_t filled = start / page_tokens;
  if ((filled + 1) * page_tokens <= end) {
    filled_.push_back({num_sequences(), static_cast<std::int32_t>(filled),
                       static_cast<std::int32_t>(end / page_tokens)});
  }
  sequences_.push_back(
      {first, count, static_cast<std::int32_t>(end), first_page, static_cast<std::int32_t>(start)});
  page_tokens_ = page_tokens;
  TANDEM_CHECK(first_adapted >= 0 && first_adapted < count, "token {} of {}", first_adapted, count);
  if (adapter.slot.valid()) {
    adapters_.push_back({adapter, first + first_adapted, count - first_adapted});
  }
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

// Segments of high ranks come first: they take longest, and should start while there is most other
// work to run beside them. Equal ranks are ordered by slot, so that the same mix of adapters gives
// the same launch.
void StepBatch::group_rows_by_adapter() {
  std::stable_sort(adapters_.begin(), adapters_.end(),
                   [](const SequenceAdapter& a, const SequenceAdapter& b) {
                     return std::tuple(-a.adapter.max_rank, a.adapter.slot) <
                            std::tuple(-b.adapter.max_rank, b.adapter.slot);
                   });
  for (const SequenceAdapter& each : adapters_) {
    const auto first = static_cast<std::int32_t>(lora_rows_.size());
    if (segments_.empty() || segments_.back().slot != each.adapter.slot.value()) {
      segments_.push_back({each.adapter.slot.value(), first, 0});
    }
    for (std::int32_t i = 0; i < each.num_rows; ++i) lora_rows_.push_back(each.first_row + i);
    segments_.back().count += each.num_rows;
  }
}

void StepBatch::group_samples_by_adapter() {
  if (segments_.empty()) return;
  constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  std::vector<std::size_t> segment_of(ids_.size(), kNone);  // [row]
  for (std::size_t s = 0; s < segments_.size(); ++s) {
    const auto rows = std::span(lora_rows_)
                          .subspan(static_cast<std::size_t>(segments_[s].first),
                                   static_cast<std::size_t>(segments_[s].count));
    for (const std::int32_t row : rows) segment_of[static_cast<std::size_t>(row)] = s;
  }
  std::vector<std::int32_t> order(sample_rows_.size());
  std::iota(order.begin(), order.end(), 0);
  const auto of = [&](std::int32_t sample) {
    return segment_of[static_cast<std::size_t>(sample_rows_[static_cast<std::size_t>(sample)])];
  };
  std::erase_if(order, [&](std::int32_t sample) { return of(sample) == kNone; });
  std::ranges::stable_sort(order, {}, of);
  for (const std::int32_t sample : order) {
    const std::int32_t slot = segments_[of(sample)].slot;
    if (sampled_segments_.empty() || sampled_segments_.back().slot != slot) {
      sampled_segments_.push_back({slot, static_cast<std::int32_t>(sampled_lora_rows_.size()), 0});
    }
    sampled_lora_rows_.push_back(sample);
    ++sampled_segments_.back().count;
  }
}

void StepBatch::find_row_slots() {
  row_slots_.assign(ids_.size(), -1);
  for (const LoraSegment& segment : segments_) {
    for (std::int32_t n = segment.first; n < segment.first + segment.count; ++n) {
      row_slots_[static_cast<std::size_t>(lora_rows_[static_cast<std::size_t>(n)])] = segment.slot;
    }
  }
  for (const std::int32_t row : sample_rows_) {
    sampled_slots_.push_back(row_slots_[static_cast<std::size_t>(row)]);
  }
}

void StepBatch::set_cold(std::span<const ColdSlot> cold,
                         std::span<const OfferDescriptor> descriptors) {
  TANDEM_CHECK(cold.size() <= kMaxColdGroups, "{} groups", cold.size());
  cold_.assign(cold.begin(), cold.end());
  descriptors_.assign(descriptors.begin(), descriptors.end());
}

void StepBatch::find_groups() {
  for (const ColdSlot& cold : cold_) {
    const auto at =
        std::find_if(segments_.begin(), segments_.end(),
                     [&](const LoraSegment& segment) { return segment.slot == cold.slot.value(); });
    TANDEM_CHECK(at != segments_.end(), "no rows of slot {}", cold.slot.value());
    groups_.push_back({static_cast<std::int32_t>(at - segments_.begin()), cold.mailbox,
                       cold.first_row, cold.generation, cold.workers});
  }
  timed_out_.resize(groups_.size(), 0);
}

std::int32_t StepBatch::max_rank() const {
  std::int32_t rank = 0;
  for (const SequenceAdapter& each : adapters_) rank = std::max(rank, each.adapter.max_rank);
  return rank;
}

SiteRanks StepBatch::site_ranks() const {
  std::vector<SlotId> counted;
  SiteRanks ranks = {};
  for (const SequenceAdapter& each : adapters_) {
    if (std::ranges::find(counted, each.adapter.slot) != counted.end()) continue;
    counted.push_back(each.adapter.slot);
    for (std::size_t site = 0; site < ranks.size(); ++site) {
      ranks[site] += each.adapter.site_ranks[site];
    }
  }
  return ranks;
}

SiteSet StepBatch::adapted() const {
  SiteSet sites;
  for (const SequenceAdapter& each : adapters_) {
    if (each.adapter.max_rank == 0) continue;
    if (each.adapter.site_ranks == SiteRanks{}) return SiteSet::all();
    for (std::size_t site = 0; site < kMaxSites; ++site) {
      if (each.adapter.site_ranks[site] > 0) sites.add(static_cast<Site>(site));
    }
  }
  return sites;
}

bool StepBatch::has_bias() const {
  return std::ranges::any_of(adapters_,
                             [](const SequenceAdapter& each) { return each.adapter.has_bias; });
}

void StepBatch::pad(const StepBounds& bounds) {
  TANDEM_CHECK(bounds.rows >= std::max(num_rows(), num_samples()), "{} rows, {} samples to {}",
               num_rows(), num_samples(), bounds.rows);
  TANDEM_CHECK(decodes_only() && num_groups() == 0, "{} rows of {} sequences, {} cold groups",
               num_rows(), num_sequences(), num_groups());
  TANDEM_CHECK(bounds.max_rank >= max_rank(), "rank {} for {}", bounds.max_rank, max_rank());
  TANDEM_CHECK(bounds.adapted.has_all(adapted()), "an adapter with modules at other sites");
  TANDEM_CHECK(bounds.has_bias || !has_bias(), "an adapter with biases");
  bounds_ = bounds;
}

StepInput StepBatch::pack(std::byte* pinned, Used& used) const {
  StepInput input;
  Packer packer(pinned, device_.data());
  // The page ids of all groups but the first are in front of all, each in space for the largest
  // number, and are copied apart.
  for (std::size_t group = 1; group < page_ids_.size(); ++group) {
    (void)packer.put_with_room(page_ids_[group], limits_.max_pages);
  }
  const std::size_t cold_begin = packer.used();
  input.more_page_ids = reinterpret_cast<const std::int32_t*>(device_.data());
  input.more_page_stride =
      static_cast<std::int32_t>(room<std::int32_t>(limits_.max_pages) / sizeof(std::int32_t));
  // The cold groups follow, in space for the largest number, so that the rest has the same
  // addresses without them.
  input.num_groups = num_groups();
  input.groups = packer.put_with_room(groups_, kMaxColdGroups);
  input.timed_out = const_cast<std::uint32_t*>(packer.put_with_room(timed_out_, kMaxColdGroups));
  input.descriptors = packer.put_with_room(descriptors_, limits_.max_offers);
  used.begin = groups_.empty() ? packer.used() : cold_begin;
  input.num_rows = num_rows();
  input.ids = packer.put(ids_, limits_.max_rows);
  input.positions = packer.put(positions_, limits_.max_rows);
  input.lengths = packer.put(lengths_, limits_.max_rows);
  input.slots = packer.put(slots_.front(), limits_.max_rows);
  for (std::size_t group = 1; group < slots_.size(); ++group) {
    (void)packer.put(slots_[group], limits_.max_rows);
  }
  input.slot_stride =
      static_cast<std::int32_t>(room<std::int32_t>(num_rows()) / sizeof(std::int32_t));
  input.sequences = packer.put(sequences_, limits_.max_sequences);
  input.host_sequences = sequences_.data();
  input.num_sequences = static_cast<std::int32_t>(sequences_.size());
  input.num_logits = bounds_.rows > 0 ? bounds_.rows : num_samples();
  input.sample_rows = packer.put(sample_rows_, limits_.max_samples);
  input.lora_rows = packer.put(lora_rows_, limits_.max_rows);
  input.num_lora_rows = static_cast<std::int32_t>(lora_rows_.size());
  input.segments = packer.put(segments_, limits_.max_sequences);
  input.num_segments = static_cast<std::int32_t>(segments_.size());
  input.sampled_lora_rows = packer.put(sampled_lora_rows_, limits_.max_samples);
  input.num_sampled_lora_rows = static_cast<std::int32_t>(sampled_lora_rows_.size());
  input.sampled_segments = packer.put(sampled_segments_, limits_.max_sequences);
  input.num_sampled_segments = static_cast<std::int32_t>(sampled_segments_.size());
  if (!row_slots_.empty()) {
    input.row_slots = packer.put(row_slots_, limits_.max_rows);
    input.sampled_slots = packer.put(sampled_slots_, limits_.max_samples);
  }
  input.page_ids = packer.put(page_ids_.front(), limits_.max_pages);
  input.live = reinterpret_cast<LoraSegment*>(live_.data());
  // The addresses vary from here on, as sampling is no part of a graph.
  input.samples = packer.put(samples_, limits_.max_samples);
  input.num_samples = num_samples();
  input.biases = packer.put(biases_, limits_.max_biases);
  input.history = packer.put(history_, limits_.max_history);
  input.num_history = static_cast<std::int32_t>(history_.size());
  used.end = packer.used();
  for (const AttentionSequence& sequence : sequences_) {
    input.max_rows = std::max(input.max_rows, sequence.num_rows);
    input.max_kv_len = std::max(input.max_kv_len, sequence.kv_len);
  }
  input.max_rank = max_rank();
  input.adapted = bounds_.rows > 0 ? bounds_.adapted : adapted();
  input.has_bias = bounds_.rows > 0 ? bounds_.has_bias : has_bias();
  input.halved = halved_;
  for (const LoraSegment& segment : segments_) {
    input.max_count = std::max(input.max_count, segment.count);
  }
  for (const LoraSegment& segment : sampled_segments_) {
    input.max_sampled_count = std::max(input.max_sampled_count, segment.count);
  }
  if (bounds_.rows > 0) {
    TANDEM_CHECK(input.max_kv_len <= bounds_.max_kv_len, "{} keys", input.max_kv_len);
    input.padded = true;
    input.max_rows = 1;
    input.max_kv_len = bounds_.max_kv_len;
    input.max_rank = bounds_.max_rank;
    input.max_count = input.num_lora_rows;
    input.max_sampled_count = input.num_sampled_lora_rows;
  }
  return input;
}

void StepBatch::fill_up() {
  const auto rows = static_cast<std::size_t>(bounds_.rows);
  ids_.resize(rows, 0);
  positions_.resize(rows, 0);
  lengths_.resize(rows, 0);
  for (std::vector<std::int32_t>& slots : slots_) slots.resize(rows, -1);
  sample_rows_.resize(rows, 0);
  sequences_.resize(rows, {0, 0, 0, 0, 0});
  if (bounds_.max_rank == 0) return;
  lora_rows_.resize(rows, 0);
  segments_.resize(rows, {0, 0, 0});
  sampled_lora_rows_.resize(rows, 0);
  sampled_segments_.resize(rows, {0, 0, 0});
  if (!bounds_.adapted.has_any(kNormSites)) return;
  row_slots_.resize(rows, -1);
  sampled_slots_.resize(rows, -1);
}

// A sequence may share pages with one that fills them in this same step (PrefixCache). Keys contain
// their position, so a page has the same index in all tables; and only whole pages are shared, from
// the first one on that the sharing sequence's window has.
void StepBatch::settle_keys() {
  const std::vector<std::int32_t>& ids = page_ids_.front();
  for (const FilledPages& filled : filled_) {
    const std::int32_t first = filled.begin * page_tokens_;
    const std::int32_t pages = sequences_[static_cast<std::size_t>(filled.sequence)].pages;
    for (std::int32_t s = 0; s < num_sequences(); ++s) {
      AttentionSequence& sequence = sequences_[static_cast<std::size_t>(s)];
      if (s == filled.sequence || sequence.settled <= first) continue;
      const std::int32_t end = std::min(filled.end, sequence.settled / page_tokens_);
      for (std::int32_t index = filled.begin; index < end; ++index) {
        const std::int32_t own = sequence.pages + index;
        const std::int32_t written = pages + index;
        if (ids[static_cast<std::size_t>(own)] != ids[static_cast<std::size_t>(written)]) continue;
        sequence.settled = first;
        break;
      }
    }
  }
}

StepInput StepBatch::upload(Stream& stream) {
  settle_keys();
  group_rows_by_adapter();
  find_groups();
  // A padded step reads them for the head only.
  const SiteSet sites = adapted();
  if (bounds_.rows == 0 || sites.has_any({Site::head, Site::head_tokens, Site::whole_head})) {
    group_samples_by_adapter();
  }
  if (sites.has_any(kNormSites)) find_row_slots();
  if (bounds_.rows > 0) fill_up();
  Staging& staging = staging_[turn_++ % staging_.size()];
  staging.copied->synchronize();
  Used used;
  const StepInput input = pack(staging.pinned.data(), used);
  for (std::size_t group = 1; group < page_ids_.size(); ++group) {
    const std::size_t at = (group - 1) * room<std::int32_t>(limits_.max_pages);
    const std::size_t bytes = page_ids_[group].size() * sizeof(std::int32_t);
    if (bytes > 0) stream.upload(device_.data() + at, staging.pinned.data() + at, bytes);
  }
  if (used.end > used.begin) {
    stream.upload(device_.data() + used.begin, staging.pinned.data() + used.begin,
                  used.end - used.begin);
  }
  stream.record(*staging.copied);
  return input;
}

StepInput StepBatch::padded_input(const StepBounds& bounds, SiteSet halved) {
  clear();
  halve(halved);
  bounds_ = bounds;
  fill_up();
  Used used;
  const StepInput input = pack(nullptr, used);
  clear();
  return input;
}

}  // namespace tandem
