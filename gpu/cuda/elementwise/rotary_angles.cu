// out[t] = scale (cos, sin)(positions[t] frequencies[c]), c from lengths[t]. A thread per row and
// pair; bound by the launch. sincosf reduces large angles exactly.
#include "gpu/cuda/base/launch.h"
#include "gpu/cuda/elementwise/elementwise.h"
#include "gpu/cuda/elementwise/rows.cuh"

namespace tandem::cuda {
namespace {

constexpr int kThreads = 128;

struct RotaryAnglesParams {
  const float* frequencies;
  std::int64_t choices;
  std::int64_t pairs;
  const std::int32_t* positions;
  const std::int32_t* lengths;
  std::int32_t first_length;
  float scale;
  float* out;
  std::int64_t rows;
};

__global__ void rotary_angles(RotaryAnglesParams p) {
  allow_next_kernel();
  const std::int64_t item = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (item >= p.rows * p.pairs) return;
  const std::int64_t t = item / p.pairs;
  const std::int64_t i = item % p.pairs;
  // Kernels of the step before may still read `out`.
  wait_for_previous_kernels();
  std::int64_t choice = std::int64_t{p.lengths[t]} - p.first_length;
  choice = choice < 0 ? 0 : choice >= p.choices ? p.choices - 1 : choice;
  const float angle = static_cast<float>(p.positions[t]) * p.frequencies[choice * p.pairs + i];
  float sine = 0;
  float cosine = 0;
  sincosf(angle, &sine, &cosine);
  float* const out = p.out + t * 2 * p.pairs + i;
  out[0] = p.scale * cosine;
  out[p.pairs] = p.scale * sine;
}

}  // namespace

Status launch_rotary_angles(const RotaryAnglesArgs& args, cudaStream_t stream) {
  if (args.out.num_elements() == 0) return {};
  const RotaryAnglesParams p{static_cast<const float*>(args.frequencies.data),
                             args.frequencies.rows(),
                             args.frequencies.cols(),
                             args.positions,
                             args.lengths,
                             args.first_length,
                             args.scale,
                             static_cast<float*>(args.out.data),
                             args.out.rows()};
  const dim3 grid(static_cast<unsigned>(ceil_div(p.rows * p.pairs, kThreads)));
  return launch_kernel("rotary_angles", {.grid = grid, .block = dim3(kThreads), .overlap = true},
                       stream, rotary_angles, p);
}

}  // namespace tandem::cuda
