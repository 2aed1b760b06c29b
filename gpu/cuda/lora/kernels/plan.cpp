#include "gpu/cuda/lora/kernels/plan.h"

#include <algorithm>

namespace tandem::cuda {
namespace {

bool aligned16(const void* p) {
  return reinterpret_cast<std::uintptr_t>(p) % 16 == 0;
}

// True if the tensor core kernels support it: they need 16-byte accesses everywhere, and room for a
// tile's v in shared memory.
bool fits_tensor_cores(const LoraParams& p) {
  constexpr int kMostRank = 512;
  if (p.type == LoraType::f32 || !p.weights_aligned || p.max_rank > kMostRank) return false;
  if (p.in % 8 != 0 || p.x_stride % 8 != 0 || !aligned16(p.x)) return false;
  for (std::int32_t m = 0; m < p.num_modules; ++m) {
    const LoraOutput& out = p.out[m];
    if (out.cols % 8 != 0 || out.stride % 8 != 0 || !aligned16(out.data)) return false;
  }
  return true;
}

std::int64_t tiles_of(const LoraParams& p, std::int64_t rows) {
  if (p.segments == nullptr) return p.num_rows;
  if (p.max_count <= rows) return p.num_segments;
  return std::min<std::int64_t>({p.num_rows, p.num_segments * ((p.max_count + rows - 1) / rows),
                                 p.num_segments + p.num_rows / rows});
}

std::int32_t widest_output(const LoraParams& p) {
  std::int32_t out = 0;
  for (std::int32_t m = 0; m < p.num_modules; ++m) out = std::max(out, p.out[m].cols);
  return out;
}

// Likewise for at most eight ranks and more than three tiles, where computing x A^T more than once
// costs less than synchronising a cluster.
void cut_low_rank(std::int64_t out, std::int64_t tiles, LoraCut& cut) {
  if (tiles <= 9 && (tiles < 7 || out > 8192)) {
    cut.log_cluster = cut.log_splits = 2;
  } else if (tiles <= 24 || (tiles <= 32 && out > 8192)) {
    cut.log_cluster = 1;
    cut.log_splits = 2;
  } else if (tiles <= 33) {
    cut.log_cluster = cut.log_splits = 1;
  } else if (tiles <= 66) {
    cut.log_splits = 2;
  } else if (tiles <= 132) {
    cut.log_splits = 1;
  }
}

// Larger clusters cannot all run at once if every tile gets one. So the first tiles, which have the
// highest ranks (in the order of segments), get a cluster each, and the rest share clusters in
// pairs: as many single ones as still let all run at once. At two blocks per multiprocessor, that
// is the number below for clusters of 1, 2, 4 and 8 (H200). In us, tiles of one row, 4096 to 4096,
// without and with pairing (H100), for 48, 96 and 192 tiles: ranks 8 to 128 in rotation 22.5 /
// 20.2, 33.2 / 33.5, 61.1 / 62.1; all of rank 128 43.0 / 40.3, 77.3 / 75.1, 145.7 / 144.8. Tried:
// twice the clusters for the first tiles, each with all of x A^T: 21.3, 34.9, 61.9.
void pair_low_ranks(const LoraParams& p, LoraCut& cut) {
  constexpr std::int64_t kAtOnce[] = {264, 132, 62, 30};
  const std::int64_t tiles = tiles_of(p, 8);
  const std::int64_t at_once = kAtOnce[cut.log_cluster] / (p.max_rank <= 128 ? 1 : 2);
  const std::int64_t whole = 2 * (at_once / p.num_modules) - tiles;
  if (whole >= 0 && whole < tiles) cut.paired = static_cast<std::int32_t>(whole);
}

// Cluster and splits for tiles of eight rows, by the number of tiles: about as many blocks as fill
// the GPU once, in clusters of at most eight (sixteen need a whole GPC each and start later). The
// thresholds come from sweeps over the peers' cases on an H200.
void cut_short_tiles(const LoraParams& p, std::int64_t tiles, LoraCut& cut) {
  const std::int64_t out = widest_output(p);
  const std::int64_t matrix_bytes = std::int64_t{2} * p.max_rank * (p.in + out);
  const bool wide = out > 8192 && p.in <= 8192;
  if (tiles <= 6 && p.in > 8192 && p.max_rank >= 32) {
    cut.log_cluster = 4;  // long dot products
    cut.log_splits = tiles <= 3 ? 1 : 0;
  } else if (tiles <= (wide && p.max_rank > 16 ? 6 : 3)) {
    cut.log_cluster = 3;
    cut.log_splits = 2;
  } else if (p.max_rank <= 8 && p.in <= 8192) {
    cut_low_rank(out, tiles, cut);
  } else if (p.max_rank <= 16 && wide && tiles >= 5 && tiles <= 10) {
    cut.log_cluster = cut.log_splits = 2;
  } else if (tiles <= (out > 8192 ? 9 : 7)) {
    cut.log_cluster = 3;
    cut.log_splits = 1;
  } else if (tiles <= 13 || (tiles <= 16 && matrix_bytes >= (300 << 10)) ||
             (tiles <= 30 && matrix_bytes >= (1 << 20))) {
    cut.log_cluster = 3;
  } else if (tiles <= 48) {
    cut.log_cluster = 2;
  } else if (tiles <= 160) {
    const bool split = p.max_rank <= 16 && p.in <= 8192 && tiles > 96 && tiles <= 132;
    (split ? cut.log_splits : cut.log_cluster) = 1;
  }
  // The maximum rank is rarely the batch's mean, so its tiles get more blocks and do not end long
  // after the others.
  if (p.max_rank > 64 && tiles > 30 && cut.log_cluster < 3) {
    ++cut.log_cluster;
    pair_low_ranks(p, cut);
  }
}

// Blocks for one half, by the number of tiles: about as many as fill the GPU once, at two per
// multiprocessor. In x A^T a tile's blocks form a cluster that splits `in`; in v B^T they split its
// columns.
void cut_half(const LoraParams& p, std::int64_t tiles, LoraCut& cut) {
  constexpr std::int64_t kBlocks = 264;
  std::int32_t& log_blocks = p.half == LoraHalf::shrink ? cut.log_cluster : cut.log_splits;
  while (log_blocks < 3 && tiles << (log_blocks + 1) <= kBlocks) ++log_blocks;
}

// The approximate number of tiles of 32 rows: those of the longest segment and one for each other
// segment, or all rows in full tiles if that is more.
std::int64_t long_tiles(const LoraParams& p) {
  const std::int64_t most = (p.max_count + 31) / 32 + p.num_segments - 1;
  const std::int64_t full = (std::int64_t{p.num_rows} + 31) / 32;
  return std::min(tiles_of(p, 32), std::max(most, full)) * p.num_modules;
}

// Tiles for long segments: 32 rows in the largest clusters that can all run at once, and 64 rows
// once there are enough tiles. A cluster lies within a part of the GPU of 14 to 18 multiprocessors
// (H200), so fewer large ones run at once than the number of blocks suggests, and a second wave
// costs more than smaller clusters. With two blocks per multiprocessor, as with ranks up to 64, 14
// clusters of 16 blocks run at once, 16 of 12, 30 of 8, 32 of 7, 62 of 4; with one block, 15 of 8
// and 17 of 6. The thresholds come from sweeps over the peers' cases and some of up to 3,072 rows
// and ranks up to 128 on an H200.
void cut_long_tiles(const LoraParams& p, LoraCut& cut) {
  const std::int64_t tiles = long_tiles(p);
  const std::int32_t out = widest_output(p);
  const bool shared = p.max_rank <= 64;
  // Much output is written, and x A^T costs little in comparison.
  const bool wide = shared && out > 8192 && p.in <= 8192;
  const bool full = p.num_rows * p.num_modules >= 24 * tiles;
  // Small weights and full tiles: sixteen blocks would have too little work for a cluster barrier.
  const std::int32_t size = p.in + out;
  const bool large = size >= 16384 || (size >= 8192 && p.num_rows <= 16 * tiles);
  const auto take = [&](int rows, int log_cluster, int log_splits, int spare) {
    cut.tile_rows = rows;
    cut.log_cluster = log_cluster;
    cut.log_splits = log_splits;
    cut.spare = spare;
  };
  if (full && wide && tiles >= 5 && tiles <= 8) {
    take(32, 4, 1, 4);
  } else if (tiles <= 4 || (large && tiles <= (shared ? 12 : 6))) {
    take(32, 4, tiles == 1 ? 2 : tiles <= 3 ? 1 : 0, 0);
  } else if (full && wide && tiles >= 15 && tiles <= 16) {
    take(32, 3, 1, 1);
  } else if (full && p.max_rank > 32 && tiles >= (shared ? 15 : 16) && tiles <= 17) {
    take(32, 3, 0, 2);
  } else if (tiles <= (shared ? 28 : 15)) {
    take(32, 3, 0, 0);
  } else if (full && shared && tiles <= 32) {
    take(32, 3, 0, 1);
  } else if (full && shared && tiles <= 64) {
    take(64, 3, 0, tiles <= 60 ? 0 : 1);
  } else if (full && shared && tiles <= 124) {
    take(64, 2, 0, 0);
  } else if (tiles <= 33) {
    take(32, 2, 0, 0);
  } else {
    take(tiles > 66 && p.max_rank <= 256 ? 64 : 32, 1, 0, 0);
  }
}

// True if tiles of many rows pay, because segments fill them at least partly. A recorded step has
// as many segments as rows, whatever they contain, so it uses short tiles.
bool has_long_segments(const LoraParams& p, const LoraGpu& gpu) {
  if (p.segments == nullptr) return false;
  const std::int64_t rows = p.num_rows;
  const std::int64_t segments = p.num_segments;
  const std::int64_t tiles = long_tiles(p);
  // Few tiles with large weights.
  if (gpu.major >= 9 && p.max_rank > 32 && tiles <= 6 && (p.in > 8192 || tiles >= 5) &&
      rows >= 2 * segments) {
    return true;
  }
  if (p.max_count < 8 || rows < 4 * segments) return false;
  // Without clusters a tile is one block's work, and a few blocks would leave most of the GPU idle.
  if (gpu.major < 9) return tiles >= 64;
  // Low ranks: reading the weights more often costs little.
  const bool wide =
      (p.max_rank <= 32 && widest_output(p) > 8192) || (p.max_rank <= 16 && p.in > 8192);
  if (wide && segments > 1 && rows <= 8 * segments) return false;
  if (p.max_rank <= 8 && p.in <= 8192 && segments == 1 && rows > 96 && rows <= 264) return false;
  return p.max_rank > 16 || tiles <= 12 || rows >= 20 * segments;
}

}  // namespace

LoraCut plan_lora(const LoraParams& p, const LoraGpu& gpu, LoraKernel kernel) {
  LoraCut cut;
  cut.overlap = gpu.major >= 9;
  if (!fits_tensor_cores(p)) return cut;
  const std::int64_t short_tiles = tiles_of(p, 8) * p.num_modules;
  if (p.half != LoraHalf::both) {
    cut.tile_rows = 8;
    cut_half(p, short_tiles, cut);
    if (gpu.major < 9) cut.log_cluster = 0;
    return cut;
  }
  if (kernel == LoraKernel::automatic) {
    kernel = has_long_segments(p, gpu) ? LoraKernel::sgmv : LoraKernel::mbgmv;
  }
  if (kernel == LoraKernel::sgmv) {
    cut_long_tiles(p, cut);
  } else {
    cut.tile_rows = 8;
    if (kernel == LoraKernel::bgmv) cut.padded_rank = p.max_rank;
    cut_short_tiles(p, short_tiles, cut);
  }
  if (gpu.major < 9) {  // clusters require sm_90
    cut.log_cluster = cut.log_splits = cut.spare = 0;
    cut.paired = -1;
  }
  return cut;
}

}  // namespace tandem::cuda
