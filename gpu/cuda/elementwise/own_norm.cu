// rms_norm() of rows whose adapters have weights of their own (RmsNormArgs::own): rms_norm.cu's
// kernels pay nothing for them, as few adapters have any. A block per row or head, which reads the
// row twice; a thread changes only elements that no other reads again. Bound by latency.
#include <type_traits>

#include "gpu/cuda/base/dispatch.h"
#include "gpu/cuda/base/launch.h"
#include "gpu/cuda/elementwise/elementwise.h"
#include "gpu/cuda/elementwise/rows.cuh"

namespace tandem::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kThreadsOfHead = 64;
constexpr std::int64_t kNarrow = 512;

struct OwnNormParams {
  const void* x;
  std::int64_t x_stride[2];  // row, head
  const float* weight;
  void* out;
  std::int64_t out_stride[2];
  std::int32_t heads;
  std::int32_t width;
  float eps;
  bool centred;
  const float* squares;  // null: x has whole rows
  std::int64_t squares_stride;
  float mean_over;  // elements of a whole row
  OwnVectors own;
};

// The weight of a row: the base's, or the adapter's, which may lie in chunks.
class RowWeight {
 public:
  __device__ RowWeight(const OwnNormParams& p, std::int64_t t) : weight_(p.weight) {
    const int slot = p.own.slots[t];
    if (slot < 0) return;
    const LoraMatrix& matrix = p.own.table[slot * p.own.slot_stride];
    if (matrix.rank == 0) return;
    const LoraPages& pages = p.own.pages;
    if (pages.base == nullptr) {
      weight_ = reinterpret_cast<const float*>(matrix.b);
      return;
    }
    base_ = pages.base;
    ids_ = pages.ids + slot * pages.slot_stride;
    shift_ = pages.shift;
    begin_ = matrix.b;
  }
  __device__ float operator[](int i) const {
    if (ids_ == nullptr) return weight_[i];
    const std::uint64_t at = begin_ + static_cast<std::uint64_t>(i) * sizeof(float);
    const std::uint64_t in_chunk = at & ((std::uint64_t{1} << shift_) - 1);
    const auto id = static_cast<std::uint64_t>(ids_[at >> shift_]);
    return *reinterpret_cast<const float*>(base_ + (id << shift_) + in_chunk);
  }

 private:
  const float* weight_;
  const std::byte* base_ = nullptr;
  const std::int32_t* ids_ = nullptr;  // null: `weight_` is it
  std::int32_t shift_ = 0;
  std::uint64_t begin_ = 0;
};

template <typename X, typename Y>
__global__ void own_norm(const __grid_constant__ OwnNormParams p) {
  allow_next_kernel();
  __shared__ float sums[kThreads / 32];
  __shared__ float sums_of_x[kThreads / 32];
  const std::int64_t t = blockIdx.x / p.heads;
  const std::int64_t head = blockIdx.x % p.heads;
  const X* const x = static_cast<const X*>(p.x) + t * p.x_stride[0] + head * p.x_stride[1];
  Y* const out = static_cast<Y*>(p.out) + t * p.out_stride[0] + head * p.out_stride[1];
  const int first = static_cast<int>(threadIdx.x);
  const int step = static_cast<int>(blockDim.x);
  wait_for_previous_kernels();

  const RowWeight weight(p, t);
  float mean = 0;
  if (p.centred) {
    for (int i = first; i < p.width; i += step) mean += to_float(x[i]);
    mean = block_sum(mean, sums_of_x) / static_cast<float>(p.width);
  }
  float sum = 0;
  if (p.squares == nullptr) {
    for (int i = first; i < p.width; i += step) {
      const float value = to_float(x[i]) - mean;
      sum += value * value;
    }
    sum = block_sum(sum, sums);
  } else {
    sum = p.squares[t * p.squares_stride];
  }
  const float factor = 1.0F / sqrtf(sum / p.mean_over + p.eps);
  for (int i = first; i < p.width; i += step) {
    out[i] = from_float<Y>((to_float(x[i]) - mean) * factor * weight[i]);
  }
}

template <typename X, typename Y>
Status launch(const OwnNormParams& p, std::int64_t rows, cudaStream_t stream) {
  const LaunchShape shape{
      .grid = dim3(static_cast<unsigned>(rows * p.heads)),
      .block = dim3(static_cast<unsigned>(p.width > kNarrow ? kThreads : kThreadsOfHead)),
      .overlap = true};
  return launch_kernel("rms_norm", shape, stream, own_norm<X, Y>, p);
}

}  // namespace

Status launch_own_norm(const RmsNormArgs& args, cudaStream_t stream) {
  const bool per_head = args.x.rank == 3;
  const auto head_stride = [&](const TensorView& view) { return per_head ? view.stride[1] : 0; };
  const OwnNormParams p{args.x.data,
                        {args.x.stride[0], head_stride(args.x)},
                        static_cast<const float*>(args.weight.data),
                        args.out.data,
                        {args.out.stride[0], head_stride(args.out)},
                        static_cast<std::int32_t>(per_head ? args.x.dim[1] : 1),
                        static_cast<std::int32_t>(args.x.cols()),
                        args.eps,
                        args.centred,
                        static_cast<const float*>(args.squares.data),
                        args.squares.stride[0],
                        static_cast<float>(args.squares.rank == 0 ? args.x.cols() : args.width),
                        args.own};
  return dispatch_dtype(args.x.dtype, [&](auto x_type) {
    using X = typename decltype(x_type)::type;
    if constexpr (std::is_same_v<X, float>) {
      return dispatch_dtype(args.out.dtype, [&](auto out_type) {
        return launch<X, typename decltype(out_type)::type>(p, args.x.rows(), stream);
      });
    } else {
      if (args.out.dtype == args.x.dtype) return launch<X, X>(p, args.x.rows(), stream);
      TANDEM_CHECK(args.out.dtype == DType::f32, "{} into {}", to_string(args.x),
                   to_string(args.out));
      return launch<X, float>(p, args.x.rows(), stream);
    }
  });
}

}  // namespace tandem::cuda
