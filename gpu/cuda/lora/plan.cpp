#include "gpu/cuda/lora/plan.h"

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

}  // namespace

LoraCut plan_lora(const LoraParams& p, const LoraGpu& gpu, LoraKernel kernel) {
  LoraCut cut;
  cut.overlap = gpu.major >= 9;
  if (!fits_tensor_cores(p)) return cut;
  cut.tile_rows = 16;
  if (kernel == LoraKernel::bgmv) cut.padded_rank = p.max_rank;

  const std::int64_t tiles = tiles_of(p, cut.tile_rows) * p.num_modules;
  const std::int64_t slots = gpu.processors;
  const int most = gpu.major >= 9 ? 16 : 1;
  while (cut.cluster < most && tiles * cut.cluster * 2 <= slots) cut.cluster *= 2;
  while (cut.splits < 8 && tiles * cut.cluster * cut.splits * 2 <= gpu.processors) cut.splits *= 2;
  return cut;
}

}  // namespace tandem::cuda
