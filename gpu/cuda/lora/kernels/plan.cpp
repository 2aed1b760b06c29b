#include "gpu/cuda/lora/kernels/plan.h"

#include <algorithm>

namespace tandem::cuda {
namespace {

bool aligned16(const void* p) {
  return reinterpret_cast<std::uintptr_t>(p) % 16 == 0;
}

// What the tensor core kernels ask for: 16-byte accesses everywhere.
bool fits_tensor_cores(const LoraParams& p) {
  if (p.type == LoraType::f32 || !p.weights_aligned) return false;
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

// Cluster and splits for tiles of eight rows, by the number of tiles: as many blocks as fill the
// GPU about once, in clusters of at most eight (sixteen need a whole GPC each and start later). The
// borders are those of a sweep over 360 of the peers' cases on an H200: within 2 % of the best cut
// of each.
void cut_short_tiles(const LoraParams& p, std::int64_t tiles, LoraCut& cut) {
  std::int64_t out = 0;
  for (std::int32_t m = 0; m < p.num_modules; ++m) out = std::max<std::int64_t>(out, p.out[m].cols);
  const std::int64_t matrix_bytes = std::int64_t{2} * p.max_rank * (p.in + out);
  if (tiles <= 4 && p.in > 8192 && p.max_rank >= 32) {
    cut.log_cluster = 4;  // long dot products
    cut.log_splits = tiles <= 3 ? 1 : 0;
  } else if (tiles <= 3) {
    cut.log_cluster = 3;
    cut.log_splits = 2;
  } else if (tiles <= (out > 8192 ? 9 : 7)) {
    cut.log_cluster = 3;
    cut.log_splits = 1;
  } else if (tiles <= 13 || (tiles <= 30 && matrix_bytes >= (1 << 20))) {
    cut.log_cluster = 3;
  } else if (tiles <= 48) {
    cut.log_cluster = 2;
  } else if (tiles <= 160) {
    cut.log_cluster = 1;
  }
  // Such a rank is rarely the batch's mean: more blocks, so that its tiles do not end long after
  // the others' (segments come with the high ranks first).
  if (p.max_rank > 64 && tiles > 30 && cut.log_cluster < 3) ++cut.log_cluster;
}

// Long segments of high rank: longer tiles read the weights less often.
void cut_long_tiles(const LoraParams& p, LoraCut& cut) {
  cut.tile_rows = p.num_rows >= 4096 && p.max_rank <= 128 ? 64 : 32;
  cut.log_cluster = p.num_rows * p.num_modules <= 1024 ? 2 : 1;
}

}  // namespace

LoraCut plan_lora(const LoraParams& p, const LoraGpu& gpu, LoraKernel kernel) {
  LoraCut cut;
  cut.overlap = gpu.major >= 9;
  if (!fits_tensor_cores(p)) return cut;
  if (kernel == LoraKernel::automatic) {
    kernel = p.max_count >= 128 && p.num_rows >= 512 && p.max_rank > 32 ? LoraKernel::sgmv
                                                                        : LoraKernel::mbgmv;
  }
  // The sums of more than 256 ranks of 32 rows do not fit into shared memory.
  if (kernel == LoraKernel::sgmv && p.max_rank <= 256) {
    cut_long_tiles(p, cut);
  } else {
    cut.tile_rows = 8;
    if (kernel == LoraKernel::bgmv) cut.padded_rank = p.max_rank;
    cut_short_tiles(p, tiles_of(p, 8) * p.num_modules, cut);
  }
  if (gpu.major < 9) cut.log_cluster = cut.log_splits = 0;  // clusters came with sm_90
  return cut;
}

}  // namespace tandem::cuda
