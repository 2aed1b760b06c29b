// out[t] = scale table[ids[t]], widened to f32 if `out` is; zeros if this shard of the table has no
// such row. Grid: rows x chunks of a row; bound by memory, for few rows by latency.
#include "gpu/cuda/base/dispatch.h"
#include "gpu/cuda/base/launch.h"
#include "gpu/cuda/elementwise/elementwise.h"
#include "gpu/cuda/elementwise/rows.cuh"

namespace tandem::cuda {
namespace {

constexpr int kThreads = 128;

struct EmbedParams {
  const void* table;
  std::int64_t table_stride;
  std::int64_t table_rows;
  const std::int32_t* ids;
  std::int64_t first_id;  // the id of the shard's first row
  std::int64_t vocab;
  void* out;
  std::int64_t out_stride;
  std::int64_t width;
  float scale;
};

template <typename T, typename Y, int V>
__global__ void embed(EmbedParams p) {
  allow_next_kernel();
  const std::int64_t i = (std::int64_t{blockIdx.y} * kThreads + threadIdx.x) * V;
  if (i >= p.width) return;
  wait_for_previous_kernels();
  const std::int64_t t = blockIdx.x;
  const std::int32_t id = p.ids[t];
  if (id < 0 || id >= p.vocab) __trap();
  const std::int64_t row = id - p.first_id;
  float values[V] = {};
  if (row >= 0 && row < p.table_rows) {
    load_row<V>(static_cast<const T*>(p.table) + row * p.table_stride + i, values);
#pragma unroll
    for (int j = 0; j < V; ++j) values[j] *= p.scale;
  }
  store_row<V>(static_cast<Y*>(p.out) + t * p.out_stride + i, values);
}

template <typename T, typename Y, int V>
Status launch(const EmbedParams& p, std::int64_t rows, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(rows),
                  static_cast<unsigned>(ceil_div(ceil_div(p.width, V), kThreads)));
  return launch_kernel("embed", {.grid = grid, .block = dim3(kThreads), .overlap = true}, stream,
                       embed<T, Y, V>, p);
}

}  // namespace

Status launch_embed(const EmbedArgs& args, cudaStream_t stream) {
  if (args.out.num_elements() == 0) return {};
  const TensorView& table = args.table.data;
  TANDEM_CHECK(args.table.is_dense(), "an embedding of format '{}', loaded all the same",
               to_string(args.table.format()));
  const EmbedParams p{table.data,      table.stride[0],
                      table.rows(),    args.ids,
                      args.first_id,   args.vocab == 0 ? table.rows() : args.vocab,
                      args.out.data,   args.out.stride[0],
                      args.out.cols(), args.scale};
  const bool wide = rows_aligned(table) && rows_aligned(args.out) && p.width % kRowVector == 0;
  return dispatch_dtype(table.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    const auto with_out = [&](auto out_type) {
      using Y = typename decltype(out_type)::type;
      return wide ? launch<T, Y, kRowVector>(p, args.out.rows(), stream)
                  : launch<T, Y, 1>(p, args.out.rows(), stream);
    };
    if (args.out.dtype == table.dtype) return with_out(type);
    TANDEM_CHECK(args.out.dtype == DType::f32, "{} into {}", to_string(table), to_string(args.out));
    return with_out(std::type_identity<float>{});
  });
}

Status kernels_fit_gpu(int major) {
  cudaFuncAttributes attributes{};
  TANDEM_TRY(cuda_status(cudaFuncGetAttributes(&attributes, embed<float, float, 1>),
                         "looking for code for this GPU"));
  constexpr int kHopper = 9;
  if (major >= kHopper && attributes.ptxVersion < 10 * kHopper) {
    return error(StatusCode::unavailable, "its code is of compute capability {}.{}",
                 attributes.ptxVersion / 10, attributes.ptxVersion % 10);
  }
  return {};
}

}  // namespace tandem::cuda
