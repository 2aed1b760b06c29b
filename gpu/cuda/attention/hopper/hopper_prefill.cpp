#include "gpu/cuda/attention/hopper/hopper_prefill.h"

#include "base/check.h"
#include "gpu/cuda/attention/hopper/hopper_instances.h"

namespace tandem::cuda {

std::int32_t hopper_prefill_rows(DType dtype, std::int64_t head_dim, bool bounded) {
  if (dtype != DType::bf16 && dtype != DType::f16) return 0;
  if (head_dim == 64) return bounded ? 0 : 192;
  return head_dim == 128 || head_dim == 256 ? 128 : 0;
}

Status prepare_hopper_prefill() {
  TANDEM_TRY(prepare_hopper_bf16());
  return prepare_hopper_f16();
}

Status launch_hopper_prefill(const HopperPrefillArgs& args, cudaStream_t stream) {
  const TensorView& q = args.attention.q;
  TANDEM_CHECK(hopper_prefill_rows(q.dtype, q.cols(), is_bounded(args.attention)) > 0, "q {}",
               to_string(q));
  if (args.num_tiles == 0) return {};
  return q.dtype == DType::bf16 ? launch_hopper_bf16(args, stream)
                                : launch_hopper_f16(args, stream);
}

bool is_bounded(const AttentionArgs& args) {
  return args.window != 0 || args.softcap != 0 || args.sinks.rank != 0;
}

}  // namespace tandem::cuda
