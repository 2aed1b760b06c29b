// Lays out one step's attention on the CPU: which rows go to which kernel, and where long contexts
// are cut so that every multiprocessor has work. No CUDA here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "gpu/cuda/attention/hopper/hopper_prefill.h"
#include "gpu/cuda/attention/kernels.h"

namespace tandem::cuda {

// What a plan may hold at most; a step beyond it is attended to by the simple kernel.
struct AttentionLimits {
  std::int32_t items = 16384;  // of the tiled kernel: one a decode row and more if it is split
  // Of 128 packed rows, 32768 rows of 32 heads over 8 KV heads; or of Hopper's kernel, unpacked.
  std::int32_t prefill_tiles = 8192;
};

// Offsets are bytes from the plan's start; the arrays are those of TiledArgs, PrefillArgs and
// HopperPrefillArgs.
struct PlannedAttention {
  static constexpr std::size_t kItems = 64;  // behind the number of items

  bool fits = false;             // else: the simple kernel for every row
  std::size_t bytes = 0;         // of the plan
  std::int32_t grid_items = 0;   // the items in whole clusters, or for captured plans a bound that
                                 // depends on the numbers of rows and sequences alone
  std::int32_t log_cluster = 0;  // as TiledArgs
  std::int32_t prefill_tiles = 0;
  std::int32_t prefill_requests = 0;
  std::size_t request_of_tile = 0;
  std::size_t tile_in_request = 0;
  std::size_t zeros = 0;
  std::size_t row_begin = 0;
  std::size_t page_begin = 0;
  std::size_t last_page_tokens = 0;
  std::int32_t hopper_tiles = 0;  // prompts go there or to prefill_tiles, never to both
  std::size_t hopper = 0;
};

class AttentionPlanner {
 public:
  // `hopper`: the GPU has what launch_hopper_prefill() needs, and clusters.
  AttentionPlanner(std::int32_t num_processors, const AttentionLimits& limits, bool hopper);

  // Writes the plan to `to`, of max_bytes().
  PlannedAttention plan(const AttentionPlan& plan, std::byte* to);

  std::size_t max_bytes() const;
  // Blocks (items x KV heads) that may leave partial results, and tiles x KV heads with counters.
  std::int32_t max_split_blocks() const { return max_split_blocks_; }

 private:
  struct Tile {
    std::int32_t sequence;
    std::int32_t packed;
    std::int32_t count;
    std::int32_t keys;  // visible to its last row
  };

  // Which sequences go to a kernel for prompts, and in how many tiles; false: in too many.
  bool choose_prompts(const AttentionPlan& plan, std::int32_t group);
  bool gather_tiles(const AttentionPlan& plan, std::int32_t group);
  struct Cut {
    std::int32_t span;         // keys of an item at most
    std::int32_t log_cluster;  // as TiledArgs
  };
  // Into at most `bound` items, of which 2^log_cluster may be, or in a captured plan are, placed
  // together.
  Cut choose_cut(const AttentionPlan& plan, std::int32_t bound, std::int32_t log_cluster) const;
  void write_items(const AttentionPlan& plan, const Cut& cut, std::byte* to,
                   PlannedAttention& planned) const;
  void write_prefill(const AttentionPlan& plan, std::int32_t group, std::byte* to,
                     PlannedAttention& planned) const;
  void write_hopper(const AttentionPlan& plan, std::byte* to, PlannedAttention& planned);

  const AttentionLimits limits_;
  const std::int32_t slots_;  // blocks that run at once
  const std::int32_t max_split_blocks_;
  const bool hopper_;
  std::vector<Tile> tiles_;            // of the tiled kernel, most keys first
  std::vector<std::int32_t> prefill_;  // sequences that go to a kernel for prompts
  std::int32_t prefill_tiles_ = 0;
  std::int32_t hopper_rows_ = 0;  // of a tile, where that kernel is Hopper's; 0: FlashAttention-2's
  std::vector<PromptTile> hopper_tiles_;
};

}  // namespace tandem::cuda
