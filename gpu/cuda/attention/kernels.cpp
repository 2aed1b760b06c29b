#include "gpu/cuda/attention/kernels.h"

#include "base/check.h"
#include "gpu/cuda/attention/instances.h"

namespace tandem::cuda {

AttentionOperands operands_of(const AttentionArgs& args) {
  AttentionOperands operands;
  operands.q = args.q.data;
  operands.q_row = args.q.stride[0];
  operands.q_head = args.q.stride[1];
  operands.out = args.out.data;
  operands.out_row = args.out.stride[0];
  operands.out_head = args.out.stride[1];
  operands.group = static_cast<std::int32_t>(args.q.dim[1]) / args.kv_heads;
  operands.kv_heads = args.kv_heads;
  operands.head_dim = static_cast<std::int32_t>(args.q.cols());
  operands.scale = args.scale;
  operands.window = args.window;
  operands.softcap = args.softcap;
  operands.sinks = static_cast<const float*>(args.sinks.data);
  operands.cache = args.cache;
  operands.sequences = args.sequences;
  operands.page_ids = args.page_ids;
  return operands;
}

bool tiled_supports(DType dtype, std::int64_t head_dim) {
  return (dtype == DType::bf16 || dtype == DType::f16) &&
         (head_dim == 64 || head_dim == 96 || head_dim == 128 || head_dim == 256 ||
          head_dim == 512);
}

Status launch_tiled_attention(const TiledArgs& args, cudaStream_t stream) {
  TANDEM_CHECK(tiled_supports(args.dtype, args.attention.head_dim), "{} heads of {}",
               to_string(args.dtype), args.attention.head_dim);
  if (args.grid_items == 0) return {};
  return args.dtype == DType::bf16 ? launch_tiled_bf16(args, stream)
                                   : launch_tiled_f16(args, stream);
}

Status prepare_tiled_attention() {
  TANDEM_TRY(prepare_tiled_bf16());
  return prepare_tiled_f16();
}

std::int32_t prefill_tile_rows(DType dtype, std::int64_t head_dim) {
  if (dtype != DType::bf16 && dtype != DType::f16) return 0;
  return head_dim == 64 || head_dim == 128 ? 128 : head_dim == 256 ? 64 : 0;
}

Status launch_prefill_attention(const PrefillArgs& args, cudaStream_t stream) {
  TANDEM_CHECK(prefill_tile_rows(args.attention.q.dtype, args.attention.q.cols()) > 0, "q {}",
               to_string(args.attention.q));
  if (args.num_tiles == 0) return {};
  return args.attention.q.dtype == DType::bf16 ? launch_prefill_bf16(args, stream)
                                               : launch_prefill_f16(args, stream);
}

}  // namespace tandem::cuda
