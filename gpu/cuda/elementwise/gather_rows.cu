// out[i] = x[rows[i]], copied bytewise. Grid: rows x chunks of a row; bound by memory.
#include "gpu/cuda/base/launch.h"
#include "gpu/cuda/elementwise/elementwise.h"
#include "gpu/cuda/elementwise/rows.cuh"

namespace tandem::cuda {
namespace {

constexpr int kThreads = 128;

// Strides and width are in units of Unit.
struct GatherParams {
  const void* x;
  std::int64_t x_stride;
  std::int64_t x_rows;
  const std::int32_t* rows;
  void* out;
  std::int64_t out_stride;
  std::int64_t width;
};

template <typename Unit>
__global__ void gather_rows(GatherParams p) {
  allow_next_kernel();
  const std::int64_t i = std::int64_t{blockIdx.y} * kThreads + threadIdx.x;
  if (i >= p.width) return;
  wait_for_previous_kernels();
  const std::int32_t row = p.rows[blockIdx.x];
  if (row < 0 || row >= p.x_rows) __trap();
  static_cast<Unit*>(p.out)[blockIdx.x * p.out_stride + i] =
      static_cast<const Unit*>(p.x)[row * p.x_stride + i];
}

template <typename Unit>
Status launch(const GatherRowsArgs& args, cudaStream_t stream) {
  const auto size = static_cast<std::int64_t>(size_of(args.x.dtype));
  const auto units = [&](std::int64_t elements) {
    return elements * size / static_cast<std::int64_t>(sizeof(Unit));
  };
  const GatherParams p{args.x.data,   units(args.x.stride[0]),   args.x.rows(),       args.rows,
                       args.out.data, units(args.out.stride[0]), units(args.x.cols())};
  const dim3 grid(static_cast<unsigned>(args.out.rows()),
                  static_cast<unsigned>(ceil_div(p.width, kThreads)));
  return launch_kernel("gather_rows", {.grid = grid, .block = dim3(kThreads), .overlap = true},
                       stream, gather_rows<Unit>, p);
}

}  // namespace

Status launch_gather_rows(const GatherRowsArgs& args, cudaStream_t stream) {
  if (args.out.num_elements() == 0) return {};
  const std::size_t size = size_of(args.x.dtype);
  const bool wide = rows_aligned(args.x) && rows_aligned(args.out) &&
                    static_cast<std::size_t>(args.x.cols()) * size % 16 == 0;
  if (wide) return launch<uint4>(args, stream);
  return size == 2 ? launch<std::uint16_t>(args, stream) : launch<std::uint32_t>(args, stream);
}

}  // namespace tandem::cuda
