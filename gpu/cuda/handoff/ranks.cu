// The work around an offer by ranks that share a model: they agree on what is known of each group,
// so that all give the same tickets, and ring once all have written their columns of x. One block
// each, one thread per group; bound by the meeting.
//
// Orders: a rank's stores of x are in a kernel before its message (released at system scope). The
// first rank's thread acquires the message before a barrier, which precedes its threads' release of
// the doorbells. So the stores precede the worker's acquire of a doorbell.
#include "gpu/cuda/base/launch.h"
#include "gpu/cuda/collectives/meeting.cuh"
#include "gpu/cuda/handoff/handoff.h"
#include "gpu/cuda/handoff/job.cuh"

namespace tandem::cuda {
namespace {

static_assert(kMaxColdGroups % 32 == 0, "a block that meets is whole warps");

__device__ __forceinline__ std::uint32_t look(const OfferArgs& a, const OfferDescriptor& descriptor,
                                              std::int32_t g) {
  const ColdGroup group = a.groups[g];
  std::uint32_t known = 0;
  if (((descriptor.cpu_groups | descriptor.xa_groups) >> g & 1) != 0) {
    const std::uint32_t* ready = a.ready + a.segments[group.segment].slot * a.slot_stride;
    if (load4_system(ready) == group.generation) known |= kHasA;
    if (load4_system(ready + 1) == group.generation) known |= kHasB;
    // acquire, system: pairs with the stream write behind the load's copies (set_flag)
    if (known != 0) fence_system();
  }
  // The state may be on another GPU.
  if (load4_system(&a.state->broken[group.mailbox]) != 0) known |= kIsBroken;
  return known;
}

__global__ void __launch_bounds__(kMaxColdGroups)
    agree(const __grid_constant__ OfferArgs a, const __grid_constant__ GroupEnd end,
          HandoffScratch* scratch) {
  __shared__ ShownParts shown;
  const auto g = static_cast<std::int32_t>(threadIdx.x);
  const OfferDescriptor descriptor = *a.descriptor;  // metadata: no need to wait
  wait_for_previous_kernels();
  if (!end.shares_gpu) allow_next_kernel();
  // Two arrays alternate: the slowest rank may still read those of the previous offer.
  std::uint32_t* const mine = a.shown + descriptor.sequence % 2 * kMaxColdGroups;
  std::uint32_t known = 0;
  if (g < a.num_groups) {
    known = look(a, descriptor, g);
    mine[g] = known;
  }
  Meeting meeting(end);
  const bool came = meeting.meet(mine, a.num_groups, shown);
  if (came) meeting.end();
  if (end.shares_gpu) allow_next_kernel();  // not earlier, for the reason in all_reduce
  if (g >= a.num_groups) return;
  std::uint32_t everywhere = known & (kHasA | kHasB);
  std::uint32_t anywhere = known & kIsBroken;
  for (std::int32_t r = 0; came && r < end.size; ++r) {
    if (r == end.rank) continue;
    if (shown.cols[r] != a.num_groups) __trap();
    const std::uint32_t theirs = load4_system(shown.at[r] + g);
    everywhere &= theirs;
    anywhere |= theirs & kIsBroken;
  }
  // Without the other ranks nothing is offered, and the step fails.
  scratch->agreed[g] = came ? everywhere | anywhere : kIsBroken;
}

__global__ void __launch_bounds__(kMaxColdGroups)
    ring(const __grid_constant__ OfferArgs a, const __grid_constant__ GroupEnd end) {
  __shared__ ShownParts shown;
  const auto g = static_cast<std::int32_t>(threadIdx.x);
  const OfferDescriptor descriptor = *a.descriptor;
  wait_for_previous_kernels();
  if (!end.shares_gpu) allow_next_kernel();
  Meeting meeting(end);
  const bool came = meeting.meet(nullptr, 0, shown);
  if (came) meeting.end();
  if (end.shares_gpu) allow_next_kernel();
  if (!came || end.rank > 0 || g >= a.num_groups) return;
  const MailboxView& mailbox = a.mailboxes[a.groups[g].mailbox];
  // release, system: pairs with the worker's acquire of its doorbell
  store_release_system(&mailbox.doorbells[g * mailbox.doorbell_stride],
                       make_doorbell(descriptor.sequence, static_cast<Ticket>(a.tickets[g])));
}

constexpr LaunchShape kShape{.grid = dim3(1), .block = dim3(kMaxColdGroups), .overlap = true};

}  // namespace

Status launch_agree(const OfferArgs& args, const GroupEnd& end, HandoffScratch* scratch,
                    cudaStream_t stream) {
  return launch_kernel("offer", kShape, stream, agree, args, end, scratch);
}

Status launch_ring(const OfferArgs& args, const GroupEnd& end, cudaStream_t stream) {
  return launch_kernel("offer", kShape, stream, ring, args, end);
}

}  // namespace tandem::cuda
