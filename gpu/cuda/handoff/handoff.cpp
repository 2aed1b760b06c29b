#include "gpu/cuda/handoff/handoff.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "gpu/cuda/base/cuda_status.h"

namespace tandem::cuda {

Result<std::unique_ptr<Handoff>> Handoff::create() {
  std::unique_ptr<Handoff> handoff(new Handoff);
  TANDEM_ASSIGN(handoff->scratch_,
                allocate_device_memory(sizeof(HandoffScratch), "memory of the handoff"));
  TANDEM_TRY(cuda_status(cudaMemset(handoff->scratch_.get(), 0, sizeof(HandoffScratch)),
                         "clearing the memory of the handoff"));
  // The operations' streams do not wait for the stream of cudaMemset.
  TANDEM_TRY(cuda_status(cudaStreamSynchronize(cudaStreamLegacy), "cudaStreamSynchronize"));
  handoff->v_bytes_ = kFirstV;
  TANDEM_ASSIGN(handoff->v_, allocate_device_memory(kFirstV, "memory of the handoff"));
  int device = 0;
  int answer = 0;
  TANDEM_TRY(cuda_status(cudaGetDevice(&device), "cudaGetDevice"));
  TANDEM_TRY(cuda_status(
      cudaDeviceGetAttribute(&answer, cudaDevAttrCanUseHostPointerForRegisteredMem, device),
      "cudaDeviceGetAttribute"));
  handoff->reaches_host_memory_ = answer != 0;
  return handoff;
}

Status Handoff::reach_host_memory() const {
  if (reaches_host_memory_) return {};
  return error(StatusCode::unavailable,
               "this GPU and driver cannot use pinned shared memory at the CPU's addresses, which "
               "handing rows to CPU workers needs; set adapter_mode to pipelined");
}

// Reserves for at most every row of the step, as wide as the widest mailbox allows.
Status Handoff::reserve_v(const AcceptArgs& args) {
  std::int64_t width = 0;
  for (const MailboxView& mailbox : args.mailboxes) width = std::max(width, mailbox.max_v);
  const std::int64_t rows =
      std::min(std::int64_t{args.num_groups} * args.max_count, args.out[0].rows());
  const auto bytes = static_cast<std::size_t>(rows * width) * sizeof(float);
  if (bytes <= v_bytes_) return {};
  const std::size_t size = std::bit_ceil(bytes);
  // Without this mode a thread that records may not allocate.
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  TANDEM_TRY(cuda_status(cudaThreadExchangeStreamCaptureMode(&mode), "a recording's memory"));
  Result<DeviceMemory> more = allocate_device_memory(size, "answers of CPU workers");
  TANDEM_TRY(cuda_status(cudaThreadExchangeStreamCaptureMode(&mode), "a recording's memory"));
  if (!more) return more.status();
  outgrown_v_.push_back(std::exchange(v_, std::move(more).value()));
  v_bytes_ = size;
  return {};
}

Status Handoff::offer(const OfferArgs& args, const GroupEnd* end, cudaStream_t stream) {
  TANDEM_TRY(reach_host_memory());
  if (end == nullptr || end->size == 1) return launch_offer(args, scratch(), stream);
  TANDEM_TRY(launch_agree(args, *end, scratch(), stream));
  TANDEM_TRY(launch_offer(args, scratch(), stream));
  return args.x_is_part ? launch_ring(args, *end, stream) : Status();
}

Status Handoff::accept(const AcceptArgs& args, cudaStream_t stream) {
  TANDEM_TRY(reach_host_memory());
  if (args.is_sum && rank_of(args).index > 0) return {};  // rank 0 adds all of it
  if (args.any_xa) TANDEM_TRY(reserve_v(args));
  auto* v = reinterpret_cast<float*>(v_.get());
  TANDEM_TRY(launch_accept(args, scratch(), v, stream));
  return args.any_xa ? launch_accept_xa(args, v, stream) : Status();
}

}  // namespace tandem::cuda
