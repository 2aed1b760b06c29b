#include "gpu/cuda/attention/attention.h"

#include <cstdint>

#include "base/check.h"
#include "gpu/cuda/attention/hopper/hopper_prefill.h"
#include "gpu/cuda/attention/kernels.h"
#include "gpu/cuda/base/cuda_status.h"
#include "gpu/cuda/base/upload.h"

namespace tandem::cuda {
namespace {

bool aligned(const void* pointer, std::uintptr_t bytes) {
  return reinterpret_cast<std::uintptr_t>(pointer) % bytes == 0;
}

bool rows_aligned(const TensorView& view, std::int64_t bytes) {
  const auto size = static_cast<std::int64_t>(size_of(view.dtype));
  return aligned(view.data, static_cast<std::uintptr_t>(bytes)) &&
         view.stride[0] * size % bytes == 0 && view.stride[1] * size % bytes == 0;
}

bool keys_aligned(const AttentionArgs& args) {
  return aligned(args.cache.base, 16) &&
         args.cache.page_stride * static_cast<std::int64_t>(size_of(args.q.dtype)) % 16 == 0;
}

}  // namespace

Attention::Attention(std::int32_t num_processors, bool hopper, const AttentionLimits& limits)
    : num_processors_(num_processors), hopper_(hopper), planner_(num_processors, limits, hopper) {}

Result<std::unique_ptr<Attention>> Attention::create(const AttentionLimits& limits) {
  int device = 0;
  int processors = 0;
  int major = 0;
  int minor = 0;
  TANDEM_TRY(cuda_status(cudaGetDevice(&device), "asking for the device"));
  TANDEM_TRY(
      cuda_status(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device),
                  "asking for the multiprocessors"));
  TANDEM_TRY(cuda_status(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
                         "asking for the compute capability"));
  TANDEM_TRY(cuda_status(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device),
                         "asking for the compute capability"));
  const bool hopper = major == 9 && minor == 0;
  std::unique_ptr<Attention> made(new Attention(processors, hopper, limits));
  TANDEM_TRY(made->allocate());
  return made;
}

Status Attention::allocate() {
  TANDEM_TRY(prepare_tiled_attention());
  if (hopper_) TANDEM_TRY(prepare_hopper_prefill());
  const std::size_t plan_bytes = planner_.max_bytes();
  const auto blocks = static_cast<std::size_t>(planner_.max_split_blocks());
  TANDEM_TRY(cuda_status(cudaMalloc(reinterpret_cast<void**>(&partial_),
                                    blocks * TileItem::kRows *
                                        (AttentionPlanner::kPartialColumns + 2) * sizeof(float)),
                         "allocating partial results of attention"));
  for (Plan& plan : plans_) {
    TANDEM_TRY(cuda_status(cudaMalloc(reinterpret_cast<void**>(&plan.bytes), plan_bytes),
                           "allocating attention plans"));
    // Blocks past the last item read their item before they find out that there is none.
    TANDEM_TRY(cuda_status(cudaMemset(plan.bytes, 0, plan_bytes), "clearing attention plans"));
  }
  const std::size_t counters = blocks * sizeof(std::uint32_t);
  TANDEM_TRY(cuda_status(cudaMalloc(reinterpret_cast<void**>(&arrived_), counters),
                         "allocating counters of attention"));
  TANDEM_TRY(cuda_status(cudaMemset(arrived_, 0, counters), "clearing counters of attention"));
  TANDEM_TRY(cuda_status(cudaDeviceSynchronize(), "clearing counters of attention"));
  for (Slot& slot : ring_) {
    TANDEM_TRY(cuda_status(cudaMallocHost(reinterpret_cast<void**>(&slot.pinned), plan_bytes),
                           "allocating pinned attention plans"));
    TANDEM_TRY(cuda_status(cudaEventCreateWithFlags(&slot.copied, cudaEventDisableTiming),
                           "creating an event"));
  }
  return {};
}

Attention::~Attention() {
  for (const Slot& slot : ring_) {
    if (slot.copied != nullptr) cudaEventDestroy(slot.copied);
    if (slot.pinned != nullptr) cudaFreeHost(slot.pinned);
  }
  cudaFree(arrived_);
  cudaFree(partial_);
  for (const Plan& plan : plans_) cudaFree(plan.bytes);
}

Attention::Plan* Attention::plan_of(std::int64_t heads, std::int64_t kv_heads,
                                    std::int64_t head_dim) {
  for (Plan& plan : plans_) {
    if (plan.heads == heads && plan.kv_heads == kv_heads && plan.head_dim == head_dim) return &plan;
  }
  return nullptr;
}

Status Attention::plan(const AttentionPlan& plan, cudaStream_t stream) {
  Plan* place = plan_of(plan.heads, plan.kv_heads, plan.head_dim);
  if (place == nullptr) {
    place = &plans_[next_plan_];
    next_plan_ = (next_plan_ + 1) % plans_.size();
  }
  Slot& slot = ring_[static_cast<std::size_t>(next_)];
  next_ = (next_ + 1) % kRing;
  TANDEM_TRY(cuda_status(cudaEventSynchronize(slot.copied), "waiting for an attention plan"));
  place->heads = plan.heads;
  place->kv_heads = plan.kv_heads;
  place->head_dim = plan.head_dim;
  place->planned = planner_.plan(plan, slot.pinned);
  if (!place->planned.fits) return {};
  TANDEM_TRY(launch_upload(place->bytes, slot.pinned, place->planned.bytes, stream));
  return cuda_status(cudaEventRecord(slot.copied, stream), "copying an attention plan");
}

Status Attention::run(const AttentionArgs& args, cudaStream_t stream) {
  if (args.q.rows() == 0 || args.num_sequences == 0) return {};
  const Plan* const plan = plan_of(args.q.dim[1], args.kv_heads, args.q.cols());
  if (plan == nullptr || !plan->planned.fits || !keys_aligned(args) || !rows_aligned(args.q, 4) ||
      !rows_aligned(args.out, 4)) {
    return launch_simple_attention(args, stream);
  }
  const PlannedAttention& planned = plan->planned;
  const bool prefill = planned.prefill_tiles > 0 || planned.hopper_tiles > 0;
  if (prefill &&
      (!rows_aligned(args.q, 16) || !rows_aligned(args.out, 16) || !args.out.is_dense())) {
    return launch_simple_attention(args, stream);
  }
  if (planned.hopper_tiles > 0) {
    TANDEM_TRY(launch_hopper_prefill(
        {.attention = args,
         .tiles = reinterpret_cast<const PromptTile*>(plan->bytes + planned.hopper),
         .num_tiles = planned.hopper_tiles,
         .processors = num_processors_},
        stream));
  } else if (prefill) {
    const auto array = [&](std::size_t offset) {
      return reinterpret_cast<std::int32_t*>(plan->bytes + offset);
    };
    TANDEM_TRY(launch_prefill_attention({.attention = args,
                                         .num_tiles = planned.prefill_tiles,
                                         .num_requests = planned.prefill_requests,
                                         .request_of_tile = array(planned.request_of_tile),
                                         .tile_in_request = array(planned.tile_in_request),
                                         .zeros = array(planned.zeros),
                                         .row_begin = array(planned.row_begin),
                                         .page_begin = array(planned.page_begin),
                                         .last_page_tokens = array(planned.last_page_tokens)},
                                        stream));
  }
  return launch_tiled_attention(
      {.attention = operands_of(args),
       .dtype = args.q.dtype,
       .num_items = reinterpret_cast<const std::int32_t*>(plan->bytes),
       .items = reinterpret_cast<const TileItem*>(plan->bytes + PlannedAttention::kItems),
       .grid_items = planned.grid_items,
       .log_cluster = planned.log_cluster,
       .partial = partial_,
       .arrived = arrived_},
      stream);
}

}  // namespace tandem::cuda
