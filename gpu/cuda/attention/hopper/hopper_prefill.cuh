// The instances of FlashInfer's kernel; one file per dtype, as each takes a minute to compile.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include <flashinfer/attention/hopper/prefill_sm90.cuh>
#include <flashinfer/attention/hopper/variants.cuh>

#include "gpu/cuda/attention/hopper/hopper_instances.h"
#include "gpu/cuda/attention/hopper/tile_epilogue.cuh"
#include "gpu/cuda/attention/hopper/tile_queue.cuh"
#include "gpu/cuda/base/cuda_status.h"
#include "gpu/cuda/base/launch.h"

namespace tandem::cuda {

// Keys and values arrive by copies of the generic proxy and are read by warpgroup products, which
// use the async proxy. PTX requires a fence between the two, which FlashInfer leaves out. Here it
// follows the wait for the copies.
template <int kStages>
class FencedPipeline : public cutlass::PipelineAsync<kStages> {
 public:
  using cutlass::PipelineAsync<kStages>::PipelineAsync;
  CUTLASS_DEVICE void consumer_wait(cutlass::PipelineState<kStages> state,
                                    cutlass::ConsumerToken token) {
    cutlass::PipelineAsync<kStages>::consumer_wait(state, token);
    cutlass::arch::fence_view_async_shared();
  }
};

struct ScoreParams {
  float sm_scale;
  float softcap;       // 0: none
  const float* sinks;  // [heads]; null: none
};

// The softmax with one score more, whose value is zero.
template <int kRowsOfThread>
struct SinkSoftmax : flashinfer::OnlineSoftmax<kRowsOfThread, /*WITH_SCALE=*/true> {
  float sink;  // to base 2; -infinity: none

  __device__ SinkSoftmax(float exponent, float to)
      : flashinfer::OnlineSoftmax<kRowsOfThread, true>(exponent), sink(to) {}

  template <typename Scores>
  __device__ void finalize(Scores& scores, float value_scale = 1) {
    flashinfer::OnlineSoftmax<kRowsOfThread, true>::finalize(scores, value_scale);
    // The base class leaves in row_sum the logarithm of the sum of the row's exponents.
#pragma unroll
    for (int row = 0; row < kRowsOfThread; ++row) {
      this->scores_scale(row) /= 1 + exp2f(sink - this->row_sum(row));
    }
  }
};

// How scores become exponents, with a softcap, a sink, or neither, chosen when the kernel runs: the
// branch is the same for all threads, and an instance less takes a minute less to compile.
struct BoundedScores {
  float in;        // of the score that tanh takes
  float exponent;  // of what the softmax takes, to base 2
  bool capped;
  float sink = -INFINITY;  // to base 2

  template <typename Params, typename Coord>
  __device__ BoundedScores(const Params& params, const Coord& coord) {
    const ScoreParams& scores = params.additional_params;
    capped = scores.softcap != 0;
    in = capped ? scores.sm_scale / scores.softcap : 1;
    exponent = (capped ? scores.softcap : scores.sm_scale) * flashinfer::math::log2e;
    if (scores.sinks != nullptr) {
      sink = scores.sinks[cute::get<1>(coord)] * flashinfer::math::log2e;
    }
  }
  template <int kRowsOfThread>
  __device__ auto GetAttentionUpdater() {
    return SinkSoftmax<kRowsOfThread>(exponent, sink);
  }
  template <typename Params, typename Score>
  __device__ float LogitsTransform(const Params&, Score score, std::uint32_t, std::uint32_t,
                                   std::uint32_t, std::uint32_t, std::uint32_t) const {
    return capped ? flashinfer::math::tanh(score * in) : score;
  }
};

// kBounded: windows, softcaps and sinks are heeded.
template <typename Element, int kD, bool kBounded>
struct HopperPrefill {
  static constexpr int kRows = kD == 64 ? 192 : 128;
  static constexpr int kKeys = kD == 256 ? 64 : 96;
  static constexpr int kStages = 2;
  using Scores = std::conditional_t<kBounded, BoundedScores, flashinfer::StandardAttention>;
  struct Traits
      : flashinfer::AttentionKernelTraits</*USE_TMA_LOAD_KV=*/false, kD, kD, kRows, kKeys, kStages,
                                          Element, Element, Element, std::int32_t, Scores> {
    using MainloopPipeline = FencedPipeline<kStages>;
  };
  using Mainloop = flashinfer::SparseCollectiveMainloop<ScoreParams, Traits, /*CAUSAL=*/true>;
  using Epilogue = TileEpilogue<Traits>;
  static constexpr auto kKernel =
      flashinfer::PrefillWithKVCacheKernel<Mainloop, Epilogue, Traits,
                                           /*LEFT_SLIDING_WINDOW=*/kBounded, /*CAUSAL=*/true,
                                           TileQueue>;
  static constexpr int kNoWindow = 1 << 30;
  static constexpr std::size_t kSharedBytes = sizeof(typename Traits::SharedStorage);

  static Status prepare() {
    return cuda_status(cudaFuncSetAttribute(kKernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                            static_cast<int>(kSharedBytes)),
                       "raising the shared memory of attention (prompts)");
  }

  static Status launch(const HopperPrefillArgs& args, cudaStream_t stream) {
    const AttentionArgs& attention = args.attention;
    const KvLayer& cache = attention.cache;
    const auto rows = static_cast<int>(attention.q.dim[0]);
    const auto heads = static_cast<int>(attention.q.dim[1]);
    auto* const keys = static_cast<Element*>(cache.base);
    const std::int64_t head_stride = std::int64_t{cache.page_tokens} * kD;
    const auto head_layout = [&](std::int64_t row, std::int64_t head, int count, int of) {
      return flashinfer::get_gmem_layout(of, count, kD, row, head);
    };
    const auto kv_layout = head_layout(kD, head_stride, attention.kv_heads, 0);
    const auto mainloop = Mainloop::to_underlying_arguments(
        {static_cast<Element*>(attention.q.data),
         head_layout(attention.q.stride[0], attention.q.stride[1], heads, rows),
         keys,
         kv_layout,
         keys + attention.kv_heads * head_stride,
         kv_layout,
         attention.page_ids,
         // Without a window, more keys before the row's own than there are.
         attention.window == 0 ? kNoWindow : attention.window - 1,
         cache.page_stride,
         cache.page_stride,
         static_cast<std::uint32_t>(cache.page_tokens),
         {attention.scale, attention.softcap, static_cast<const float*>(attention.sinks.data)}});
    const auto epilogue = Epilogue::to_underlying_arguments(
        {static_cast<Element*>(attention.out.data),
         head_layout(attention.out.stride[0], attention.out.stride[1], heads, rows), nullptr,
         flashinfer::get_lse_gmem_layout(rows, heads)});
    const TileQueue::Params queue{args.tiles, args.num_tiles * heads, cutlass::FastDivmod(heads),
                                  cutlass::FastDivmod(heads / attention.kv_heads)};
    LaunchShape shape;
    shape.grid = static_cast<unsigned>(std::min(queue.count, args.processors));
    shape.block = Traits::NUM_WARPS * 32;
    shape.shared_bytes = kSharedBytes;
    shape.overlap = true;
    return launch_kernel("attention (prompts)", shape, stream, kKernel, mainloop, epilogue, queue);
  }
};

template <typename Element>
Status prepare_hopper() {
  TANDEM_TRY((HopperPrefill<Element, 64, false>::prepare()));
  TANDEM_TRY((HopperPrefill<Element, 128, false>::prepare()));
  TANDEM_TRY((HopperPrefill<Element, 128, true>::prepare()));
  return HopperPrefill<Element, 256, true>::prepare();
}

template <typename Element>
Status launch_hopper(const HopperPrefillArgs& args, cudaStream_t stream) {
  const AttentionArgs& attention = args.attention;
  if (attention.q.cols() == 64) return HopperPrefill<Element, 64, false>::launch(args, stream);
  if (attention.q.cols() == 256) return HopperPrefill<Element, 256, true>::launch(args, stream);
  return is_bounded(attention) ? HopperPrefill<Element, 128, true>::launch(args, stream)
                               : HopperPrefill<Element, 128, false>::launch(args, stream);
}

}  // namespace tandem::cuda
