#include "gpu/cuda/attention/attention_planner.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/check.h"

namespace tandem::cuda {
namespace {

constexpr std::int32_t kSpans[] = {64,   128,  192,  256,  384,  512,   768,   1024,
                                   1536, 2048, 3072, 4096, 8192, 16384, 32768, 65536};
constexpr std::int32_t kWholeTile = std::numeric_limits<std::int32_t>::max();
constexpr std::int32_t kSpanUnit = 64;  // keys that a block's warps process in one round
// Chunks with fewer packed rows than this would leave most of a prefill tile empty.
constexpr std::int32_t kMinPrefillRows = 48;
// The speed of Hopper's kernel on the same tile, relative to the other prefill kernel: 1.3 to 2
// (one H100).
constexpr double kHopperSpeed = 1.5;
// Hopper's kernel already beats the tiled kernel with blocks for a fifth of the multiprocessors,
// except for prompts of 64 rows without earlier keys. In us, Hopper's kernel and the tiled one, 32
// heads of 128: 64 rows 6.3 and 5.9, 96 rows 6.2 and 8.3, 256 rows 9.9 and 18, 256 rows at the end
// of 8192 keys 121 and 434.
constexpr std::int32_t kShortPrompt = 64;

std::int32_t ceil_of(std::int32_t a, std::int32_t b) {
  return static_cast<std::int32_t>((static_cast<std::int64_t>(a) + b - 1) / b);
}

// The number of keys per item if a tile's keys are cut into spans of at most `span`: as equal as
// whole rounds of the warps allow.
std::int32_t keys_each(std::int32_t keys, std::int32_t span) {
  const std::int32_t items = std::min(ceil_of(keys, span), kMaxItemsPerTile);
  return ceil_of(ceil_of(keys, items), kSpanUnit) * kSpanUnit;
}

// Where a tile's items begin behind `behind` earlier items: within one cluster, if they all fit
// into one.
std::int32_t begin_of(std::int32_t behind, std::int32_t items, std::int32_t log_cluster) {
  const std::int32_t cluster = 1 << log_cluster;
  const std::int32_t left = -behind & (cluster - 1);
  return items > 1 && items <= cluster && items > left ? behind + left : behind;
}

std::int32_t log2_of(std::int32_t value) {  // rounded down
  return std::bit_width(static_cast<std::uint32_t>(value)) - 1;
}

}  // namespace

AttentionPlanner::AttentionPlanner(std::int32_t num_processors, const AttentionLimits& limits,
                                   bool hopper)
    : limits_(limits), slots_(2 * num_processors), max_split_blocks_(4 * slots_), hopper_(hopper) {
  tiles_.reserve(static_cast<std::size_t>(limits.items));
  prefill_.reserve(static_cast<std::size_t>(limits.prefill_tiles));
  if (hopper) hopper_tiles_.reserve(static_cast<std::size_t>(limits.prefill_tiles));
}

std::size_t AttentionPlanner::max_bytes() const {
  const auto items = static_cast<std::size_t>(limits_.items);
  const auto tiles = static_cast<std::size_t>(limits_.prefill_tiles);
  // A sequence has at least one prefill tile: nine numbers per tile bound its six arrays, or the
  // single array of five numbers per tile.
  return PlannedAttention::kItems + items * sizeof(TileItem) + (9 * tiles + 2) * 4 + 6 * 16;
}

std::int32_t AttentionPlanner::max_split_items(const AttentionPlan& plan) const {
  const std::int32_t wide = plan.head_dim > kPartialColumns ? 2 : 1;
  return max_split_blocks_ / wide / plan.kv_heads;
}

bool AttentionPlanner::choose_prompts(const AttentionPlan& plan, std::int32_t group) {
  prefill_.clear();
  prefill_tiles_ = 0;
  hopper_rows_ = 0;
  if (plan.captured) return true;
  const std::int32_t packed_rows = prefill_tile_rows(plan.dtype, plan.head_dim);
  const std::int32_t rows =
      hopper_ ? hopper_prefill_rows(plan.dtype, plan.head_dim, plan.bounded) : 0;
  if (packed_rows == 0 || (plan.sinks && rows == 0)) return true;
  std::int64_t tiles = 0;         // tiles of Hopper's kernel
  std::int64_t packed_tiles = 0;  // tiles of FlashAttention-2's kernel
  double work = 0;                // rows x keys that their blocks compute, padding included
  double packed_work = 0;
  std::int32_t longest = 0;
  for (std::int32_t s = 0; s < plan.num_sequences; ++s) {
    const AttentionSequence& sequence = plan.sequences[s];
    const std::int32_t packed = sequence.num_rows * group;
    if (sequence.kv_len == 0 || sequence.num_rows == 1 || packed < kMinPrefillRows) continue;
    prefill_.push_back(s);
    longest = std::max(longest, sequence.num_rows);
    const std::int32_t of_packed = ceil_of(packed, packed_rows);
    packed_tiles += of_packed;
    packed_work += 1.0 * of_packed * packed_rows * sequence.kv_len;
    if (rows == 0) continue;
    const std::int32_t of_rows = ceil_of(sequence.num_rows, rows);
    tiles += of_rows;
    work += 1.0 * of_rows * rows * group * sequence.kv_len;
  }
  // FlashAttention-2's kernel knows no sinks.
  const bool hopper = rows > 0 && (plan.sinks || work <= kHopperSpeed * packed_work);
  const std::int64_t blocks = hopper ? tiles * plan.heads : packed_tiles * plan.kv_heads;
  const std::int32_t fewest = hopper && longest > kShortPrompt ? slots_ / 10 : slots_ / 4;
  // Too few to occupy the GPU. The tiled kernel has more blocks, and also cuts the keys.
  if (blocks < fewest) {
    prefill_.clear();
    return true;
  }
  prefill_tiles_ = static_cast<std::int32_t>(
      std::min<std::int64_t>(hopper ? tiles : packed_tiles, limits_.prefill_tiles + 1));
  if (hopper) hopper_rows_ = rows;
  return prefill_tiles_ <= limits_.prefill_tiles;
}

bool AttentionPlanner::gather_tiles(const AttentionPlan& plan, std::int32_t group) {
  if (!choose_prompts(plan, group)) return false;
  tiles_.clear();
  std::size_t next_prefill = 0;
  for (std::int32_t s = 0; s < plan.num_sequences; ++s) {
    const AttentionSequence& sequence = plan.sequences[s];
    if (next_prefill < prefill_.size() && prefill_[next_prefill] == s) {
      ++next_prefill;
      continue;
    }
    if (sequence.kv_len == 0) continue;
    const std::int32_t rows = sequence.num_rows * group;
    for (std::int32_t packed = 0; packed < rows; packed += TileItem::kRows) {
      const std::int32_t count = std::min(TileItem::kRows, rows - packed);
      const std::int32_t last_row = (packed + count - 1) / group;
      if (static_cast<std::int32_t>(tiles_.size()) == limits_.items) return false;
      tiles_.push_back({s, packed, count, sequence.kv_len - sequence.num_rows + last_row + 1});
    }
  }
  // The longest first, since they end last. Tiles that are cut come before those that are not.
  std::stable_sort(tiles_.begin(), tiles_.end(),
                   [](const Tile& a, const Tile& b) { return a.keys > b.keys; });
  return true;
}

// The cut with the shortest predicted time, in nanoseconds as measured on an H200 (only the ratios
// matter). The memory's own time is the same for all cuts and left out. A round of blocks takes 3.5
// us regardless of its keys, and a block takes 8 ns per key of 128 elements; merging takes 2.4 us
// and a little per item, more if two blocks of a multiprocessor merge at once. Merging in clusters
// takes 1 us, but is limited to one block per multiprocessor: with two, which are placed later than
// single blocks, a step of 8 rows of llama-3-8b took 3.7 us per layer longer than uncut. Recorded
// launches keep their clusters when longer contexts are cut into more items.
AttentionPlanner::Cut AttentionPlanner::choose_cut(const AttentionPlan& plan, std::int32_t bound,
                                                   std::int32_t log_cluster) const {
  const std::int32_t max_items = std::min(bound, max_split_items(plan));
  Cut best{kWholeTile, plan.captured ? log_cluster : 0};
  double best_time = std::numeric_limits<double>::max();
  const auto count_items = [&](const Cut& cut) {
    std::int32_t items = 0;
    for (const Tile& tile : tiles_) {
      const std::int32_t own = ceil_of(tile.keys, keys_each(tile.keys, cut.span));
      items = begin_of(items, own, cut.log_cluster) + own;
    }
    return items;
  };
  const auto consider = [&](std::int32_t span) {
    const std::int32_t most_keys = tiles_.front().keys;
    const std::int32_t most = ceil_of(most_keys, keys_each(most_keys, span));
    Cut cut{span, log_cluster};
    if (!plan.captured) {
      cut.log_cluster = most > 1 && most <= 1 << log_cluster ? log2_of(2 * most - 1) : 0;
    }
    std::int32_t items = count_items(cut);
    const auto blocks_of = [&] { return static_cast<std::int64_t>(items) * plan.kv_heads; };
    if (!plan.captured && blocks_of() > slots_ / 2) {
      cut.log_cluster = 0;
      items = count_items(cut);
    }
    const std::int64_t blocks = blocks_of();
    if (most > 1 && items > max_items) return;
    const double key_time = 8.0 * plan.head_dim / 128 * ceil_of(most_keys, most);
    const auto rounds = std::ceil(static_cast<double>(blocks) / slots_);
    double merge = 0;
    if (most > 1) merge = 2400.0 + 30.0 * most + (blocks > slots_ / 2 ? 1500.0 : 0.0);
    if (most > 1 && most <= 1 << cut.log_cluster) merge = 1000.0 + 30.0 * most;
    const double time = key_time + 3500.0 * rounds + merge;
    if (time >= best_time) return;
    best_time = time;
    best = cut;
  };
  consider(kWholeTile);
  for (const std::int32_t span : kSpans) {
    if (span < tiles_.front().keys) consider(span);
  }
  return best;
}

void AttentionPlanner::write_items(const AttentionPlan& plan, const Cut& cut, std::byte* bytes,
                                   PlannedAttention& planned) const {
  auto* const to = reinterpret_cast<TileItem*>(bytes + PlannedAttention::kItems);
  std::int32_t count = 0;
  for (std::size_t t = 0; t < tiles_.size(); ++t) {
    const Tile& tile = tiles_[t];
    const AttentionSequence& sequence = plan.sequences[tile.sequence];
    TileItem item{};
    item.first_row = sequence.first_row;
    item.num_rows = sequence.num_rows;
    item.kv_len = sequence.kv_len;
    item.pages = sequence.pages;
    item.settled = sequence.settled;
    item.packed = tile.packed;
    item.count = tile.count;
    item.tile = static_cast<std::int32_t>(t);
    const std::int32_t each = keys_each(tile.keys, cut.span);
    item.num_items = ceil_of(tile.keys, each);
    item.first_item = begin_of(count, item.num_items, cut.log_cluster);
    while (count < item.first_item) to[count++] = TileItem{};
    for (std::int32_t begin = 0; begin < tile.keys; begin += each) {
      item.begin_key = begin;
      item.end_key = std::min(tile.keys, begin + each);
      to[count++] = item;
    }
  }
  std::memcpy(bytes, &count, sizeof count);
  planned.grid_items = ceil_of(count, 1 << cut.log_cluster) << cut.log_cluster;
  planned.log_cluster = cut.log_cluster;
  planned.bytes = PlannedAttention::kItems + static_cast<std::size_t>(count) * sizeof(TileItem);
}

void AttentionPlanner::write_prefill(const AttentionPlan& plan, std::int32_t group, std::byte* to,
                                     PlannedAttention& planned) const {
  const auto array = [&](std::size_t& offset, std::size_t count) {
    offset = planned.bytes;
    planned.bytes += (count * sizeof(std::int32_t) + 15) / 16 * 16;
    return reinterpret_cast<std::int32_t*>(to + offset);
  };
  const auto tiles = static_cast<std::size_t>(prefill_tiles_);
  const std::size_t requests = 2 * prefill_.size();
  std::int32_t* request_of_tile = array(planned.request_of_tile, tiles);
  std::int32_t* tile_in_request = array(planned.tile_in_request, tiles);
  std::int32_t* zeros = array(planned.zeros, tiles);
  std::int32_t* row_begin = array(planned.row_begin, requests + 1);
  std::int32_t* page_begin = array(planned.page_begin, requests + 1);
  std::int32_t* last_page_tokens = array(planned.last_page_tokens, requests);
  planned.prefill_tiles = prefill_tiles_;
  planned.prefill_requests = static_cast<std::int32_t>(requests);
  std::fill_n(zeros, tiles, 0);

  const std::int32_t tile_rows = prefill_tile_rows(plan.dtype, plan.head_dim);
  std::int32_t last_page = 0;
  std::size_t next = 0;
  for (std::size_t i = 0; i < prefill_.size(); ++i) {
    const AttentionSequence& sequence = plan.sequences[prefill_[i]];
    const std::int32_t pages = ceil_of(sequence.kv_len, plan.page_tokens);
    row_begin[2 * i] = sequence.first_row;
    row_begin[2 * i + 1] = sequence.first_row + sequence.num_rows;
    page_begin[2 * i] = sequence.pages;
    page_begin[2 * i + 1] = sequence.pages + pages;
    last_page_tokens[2 * i] = sequence.kv_len - (pages - 1) * plan.page_tokens;
    last_page_tokens[2 * i + 1] = 0;
    last_page = std::max(last_page, sequence.pages + pages);
    // The last tile of a chunk sees the most keys.
    for (std::int32_t t = ceil_of(sequence.num_rows * group, tile_rows) - 1; t >= 0; --t) {
      request_of_tile[next] = static_cast<std::int32_t>(2 * i);
      tile_in_request[next++] = t;
    }
  }
  row_begin[requests] = row_begin[requests - 1];
  page_begin[requests] = last_page;
}

void AttentionPlanner::write_hopper(const AttentionPlan& plan, std::byte* to,
                                    PlannedAttention& planned) {
  hopper_tiles_.clear();
  for (const std::int32_t s : prefill_) {
    const AttentionSequence& sequence = plan.sequences[s];
    for (std::int32_t t = 0; t < ceil_of(sequence.num_rows, hopper_rows_); ++t) {
      hopper_tiles_.push_back(
          {sequence.first_row, sequence.num_rows, sequence.kv_len, sequence.pages, t});
    }
  }
  const auto keys = [&](const PromptTile& tile) {
    const std::int32_t end = std::min((tile.tile + 1) * hopper_rows_, tile.num_rows);
    return tile.kv_len - tile.num_rows + end;
  };
  std::stable_sort(hopper_tiles_.begin(), hopper_tiles_.end(),
                   [&](const PromptTile& a, const PromptTile& b) { return keys(a) > keys(b); });
  planned.hopper_tiles = prefill_tiles_;
  planned.hopper = planned.bytes;
  const std::size_t bytes = hopper_tiles_.size() * sizeof(PromptTile);
  std::memcpy(to + planned.hopper, hopper_tiles_.data(), bytes);
  planned.bytes += (bytes + 15) / 16 * 16;
}

PlannedAttention AttentionPlanner::plan(const AttentionPlan& plan, std::byte* to) {
  PlannedAttention planned;
  TANDEM_CHECK(plan.kv_heads > 0 && plan.heads % plan.kv_heads == 0, "{} heads, {} KV heads",
               plan.heads, plan.kv_heads);
  if (!tiled_supports(plan.dtype, plan.head_dim)) return planned;
  const std::int32_t group = plan.heads / plan.kv_heads;
  if (!gather_tiles(plan, group)) return planned;

  std::int32_t bound = limits_.items;
  std::int32_t log_cluster = hopper_ ? log2_of(kMaxTileCluster) : 0;
  if (plan.captured) {
    // Allows cuts up to about one block per multiprocessor, or four ways while all blocks still run
    // at once. Empty blocks are not free: 160 of them took 0.7 us.
    const std::int32_t whole =
        std::min(plan.num_rows * ceil_of(group, TileItem::kRows),
                 plan.num_rows * group / TileItem::kRows + plan.num_sequences);
    const std::int32_t room =
        std::max(whole + slots_ / 2 / plan.kv_heads, std::min(4 * whole, slots_ / plan.kv_heads));
    bound = std::max(whole, std::min(max_split_items(plan), room));
    const std::int32_t blocks = std::max(whole, 1) * plan.kv_heads;
    const std::int32_t room_together = std::min(bound * plan.kv_heads, slots_ / 2) / blocks;
    log_cluster = std::min(log_cluster, log2_of(std::max(room_together, 1)));
    bound = bound >> log_cluster << log_cluster;
    if (bound > limits_.items) return planned;
  }
  const Cut whole{kWholeTile, plan.captured ? log_cluster : 0};
  write_items(plan, tiles_.empty() ? whole : choose_cut(plan, bound, log_cluster), to, planned);
  planned.fits = true;
  if (plan.captured) planned.grid_items = bound;  // other steps of the same shape may need as many
  if (prefill_.empty()) return planned;
  if (hopper_rows_ > 0) {
    write_hopper(plan, to, planned);
  } else {
    write_prefill(plan, group, to, planned);
  }
  return planned;
}

}  // namespace tandem::cuda
