// FlashInfer's FlashAttention-2 kernel over the paged cache, driven by this project's plan. It is
// used where it is best, for long chunks, and always with a tile's keys in one block: splitting
// them its way would round the partial results to the compute dtype.
#pragma once

#include <flashinfer/attention/default_prefill_params.cuh>
#include <flashinfer/attention/prefill.cuh>
#include <flashinfer/attention/variants.cuh>

#include "gpu/cuda/attention/kernels.h"
#include "gpu/cuda/base/cuda_status.h"

namespace tandem::cuda {

template <typename T, int kD>
Status launch_prefill(const PrefillArgs& args, cudaStream_t stream) {
  using Params = flashinfer::BatchPrefillPagedParams<T, T, T, std::int32_t>;
  const AttentionArgs& attention = args.attention;
  const KvLayer& cache = attention.cache;
  const auto heads = static_cast<std::uint32_t>(attention.q.dim[1]);
  const auto kv_heads = static_cast<std::uint32_t>(attention.kv_heads);
  const auto page_tokens = static_cast<std::uint32_t>(cache.page_tokens);
  auto* keys = static_cast<T*>(cache.base);
  const std::int64_t strides[] = {cache.page_stride, static_cast<std::int64_t>(page_tokens) * kD,
                                  kD};

  Params params;
  params.q = static_cast<T*>(attention.q.data);
  params.o = static_cast<T*>(attention.out.data);
  params.paged_kv = flashinfer::paged_kv_t<T, std::int32_t>(
      kv_heads, page_tokens, kD, static_cast<std::uint32_t>(args.num_requests),
      flashinfer::QKVLayout::kHND, keys, keys + std::size_t{kv_heads} * page_tokens * kD, strides,
      const_cast<std::int32_t*>(attention.page_ids), args.page_begin, args.last_page_tokens);
  params.q_indptr = args.row_begin;
  params.o_indptr = args.row_begin;
  params.group_size = flashinfer::uint_fastdiv(heads / kv_heads);
  params.num_qo_heads = heads;
  params.q_stride_n = static_cast<std::int32_t>(attention.q.stride[0]);
  params.q_stride_h = static_cast<std::int32_t>(attention.q.stride[1]);
  params.window_left = attention.window - 1;  // keys before the row's own; -1: all
  params.logits_soft_cap = attention.softcap;
  params.sm_scale = attention.scale;
  params.rope_rcp_scale = 1;
  params.rope_rcp_theta = 1;
  params.request_indices = args.request_of_tile;
  params.qo_tile_indices = args.tile_in_request;
  params.kv_tile_indices = args.zeros;
  params.kv_chunk_size_ptr = args.zeros;  // read but not used: tiles are not split
  params.padded_batch_size = static_cast<std::uint32_t>(args.num_tiles);
  const auto run = [&]<bool kWindow, bool kSoftcap>() {
    constexpr int kRows = kD > 128 ? 64 : 128;
    return cuda_status(
        flashinfer::BatchPrefillWithPagedKVCacheDispatched<
            kRows, kD, kD, flashinfer::PosEncodingMode::kNone, false, flashinfer::MaskMode::kCausal,
            flashinfer::DefaultAttention<false, kWindow, kSoftcap, false>, Params>(
            params, nullptr, nullptr, /*enable_pdl=*/false, stream),
        "attention (prefill)");
  };
  if (attention.softcap != 0) return run.template operator()<true, true>();
  if (attention.window != 0) return run.template operator()<true, false>();
  return run.template operator()<false, false>();
}

}  // namespace tandem::cuda
