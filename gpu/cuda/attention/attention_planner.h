// Lays out one step's attention on the CPU: assigns rows to kernels, and cuts long contexts so that
// every multiprocessor has work. This file contains no CUDA.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "gpu/cuda/attention/hopper/hopper_prefill.h"
#include "gpu/cuda/attention/kernels.h"

namespace tandem::cuda {

// The maximum size of a plan; larger steps use the simple kernel.
struct AttentionLimits {
  std::int32_t items = 16384;  // of the tiled kernel: one per decode row, more if it is split
  // A tile has 128 packed rows (32768 rows of 32 heads over 8 KV heads), or Hopper's unpacked rows.
  std::int32_t prefill_tiles = 8192;
};

// Offsets are bytes from the plan's start; the arrays are those of TiledArgs, PrefillArgs and
// HopperPrefillArgs.
struct PlannedAttention {
  static constexpr std::size_t kItems = 64;  // the items follow their number

  bool fits = false;             // false: every row uses the simple kernel
  std::size_t bytes = 0;         // size of the plan
  std::int32_t grid_items = 0;   // number of items in whole clusters, or for captured plans a bound
                                 // that depends only on the numbers of rows and sequences
  std::int32_t log_cluster = 0;  // as TiledArgs
  std::int32_t prefill_tiles = 0;
  std::int32_t prefill_requests = 0;
  std::size_t request_of_tile = 0;
  std::size_t tile_in_request = 0;
  std::size_t zeros = 0;
  std::size_t row_begin = 0;
  std::size_t page_begin = 0;
  std::size_t last_page_tokens = 0;
  std::int32_t hopper_tiles = 0;  // prompts use either these or prefill_tiles, never both
  std::size_t hopper = 0;
};

class AttentionPlanner {
 public:
  // `hopper`: the GPU has clusters and all that launch_hopper_prefill() needs.
  AttentionPlanner(std::int32_t num_processors, const AttentionLimits& limits, bool hopper);

  // Writes the plan to `to`, which has max_bytes().
  PlannedAttention plan(const AttentionPlan& plan, std::byte* to);

  std::size_t max_bytes() const;
  // A bound on blocks (items x KV heads) with partial results, and on counters (tiles x KV heads).
  // A block of heads of 512 counts twice as one with partial results.
  std::int32_t max_split_blocks() const { return max_split_blocks_; }
  static constexpr std::int32_t kPartialColumns = 256;  // of a block's partial results

 private:
  struct Tile {
    std::int32_t sequence;
    std::int32_t packed;
    std::int32_t count;
    std::int32_t keys;  // keys visible to its last row
  };

  // Chooses the sequences for a prompt kernel and their tiles; false: there are too many tiles.
  bool choose_prompts(const AttentionPlan& plan, std::int32_t group);
  // A bound on the items of tiles that are cut.
  std::int32_t max_split_items(const AttentionPlan& plan) const;
  bool gather_tiles(const AttentionPlan& plan, std::int32_t group);
  struct Cut {
    std::int32_t span;         // maximum number of keys per item
    std::int32_t log_cluster;  // as TiledArgs
  };
  // Cuts into at most `bound` items. Up to 2^log_cluster items may be placed together; in a
  // captured plan that many are.
  Cut choose_cut(const AttentionPlan& plan, std::int32_t bound, std::int32_t log_cluster) const;
  void write_items(const AttentionPlan& plan, const Cut& cut, std::byte* to,
                   PlannedAttention& planned) const;
  void write_prefill(const AttentionPlan& plan, std::int32_t group, std::byte* to,
                     PlannedAttention& planned) const;
  void write_hopper(const AttentionPlan& plan, std::byte* to, PlannedAttention& planned);

  const AttentionLimits limits_;
  const std::int32_t slots_;  // blocks that run at the same time
  const std::int32_t max_split_blocks_;
  const bool hopper_;
  std::vector<Tile> tiles_;            // tiles of the tiled kernel, most keys first
  std::vector<std::int32_t> prefill_;  // sequences that use a prompt kernel
  std::int32_t prefill_tiles_ = 0;
  std::int32_t hopper_rows_ = 0;  // rows per tile of Hopper's kernel; 0: FlashAttention-2's is used
  std::vector<PromptTile> hopper_tiles_;
};

}  // namespace tandem::cuda
