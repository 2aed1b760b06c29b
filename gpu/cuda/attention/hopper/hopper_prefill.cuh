// The instances of FlashInfer's kernel; one file per dtype, as each takes a minute to compile.
#pragma once

#include <algorithm>
#include <cstdint>

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

template <typename Element, int kD>
struct HopperPrefill {
  struct Scale {
    float sm_scale;
  };
  static constexpr int kRows = kD == 64 ? 192 : 128;
  static constexpr int kKeys = 96;
  static constexpr int kStages = 2;
  struct Traits : flashinfer::AttentionKernelTraits</*USE_TMA_LOAD_KV=*/false, kD, kD, kRows, kKeys,
                                                    kStages, Element, Element, Element,
                                                    std::int32_t, flashinfer::StandardAttention> {
    using MainloopPipeline = FencedPipeline<kStages>;
  };
  using Mainloop = flashinfer::SparseCollectiveMainloop<Scale, Traits, /*CAUSAL=*/true>;
  using Epilogue = TileEpilogue<Traits>;
  static constexpr auto kKernel =
      flashinfer::PrefillWithKVCacheKernel<Mainloop, Epilogue, Traits,
                                           /*LEFT_SLIDING_WINDOW=*/false, /*CAUSAL=*/true,
                                           TileQueue>;
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
         /*window_left=*/-1,
         cache.page_stride,
         cache.page_stride,
         static_cast<std::uint32_t>(cache.page_tokens),
         {attention.scale}});
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
  TANDEM_TRY((HopperPrefill<Element, 64>::prepare()));
  return HopperPrefill<Element, 128>::prepare();
}

template <typename Element>
Status launch_hopper(const HopperPrefillArgs& args, cudaStream_t stream) {
  return args.attention.q.cols() == 64 ? HopperPrefill<Element, 64>::launch(args, stream)
                                       : HopperPrefill<Element, 128>::launch(args, stream);
}

}  // namespace tandem::cuda
