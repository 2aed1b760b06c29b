// Projections of a LlamaModel: the product, the adapters' deltas, and what of them is offered to
// CPU workers and taken from them.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "engine/model/llama_step.h"

namespace tandem {
namespace {

// The first bytes of `room` as a dense matrix of a row for each of the step's.
TensorView narrow(const TensorView& room, std::int32_t rows, std::int64_t cols) {
  TANDEM_CHECK(rows * cols <= room.num_elements(), "{} rows of {} in {}", rows, cols,
               to_string(room));
  return {room.data, room.dtype, {rows, cols}};
}

// Of the place of a projection, given the first one's.
HandoffJob job_at(HandoffJob job, std::size_t layer, std::size_t site) {
  const std::size_t at = offer_at(layer, site);
  job.turn += at;
  job.tickets += at * kMaxColdGroups;
  if (job.time != nullptr) job.time += at;
  return job;
}

}  // namespace

bool LlamaModel::has_deltas(const Step& step, std::int64_t layer, Site site) {
  return step.input.num_segments > 0 &&
         (is_offered(step.handoff, layer, site) || step.input.adapted.has(site));
}

// [offer] -> product -> deltas -> [accept]: while the device multiplies, the workers compute.
void LlamaModel::project(Step& step, std::int64_t layer, const Projection& projection) {
  const StepInput& input = step.input;
  const auto site = static_cast<std::size_t>(projection.site);
  const auto first = static_cast<std::int32_t>(kFirstModuleOfSite[site]);
  const StepHandoff* const handoff = step.handoff;
  const bool offered = is_offered(handoff, layer, projection.site);
  // Of a shard: its columns of x, and its part of a sum.
  const bool is_part =
      communicator_ != nullptr && (projection.site == Site::o || projection.site == Site::down);
  if (offered) {
    const std::int64_t row = handoff->whole_loads ? config_.num_layers : layer;
    OfferArgs args;
    static_cast<HandoffJob&>(args) = job_at(step.job, static_cast<std::size_t>(layer), site);
    args.x = projection.x;
    args.x_is_part = is_part;
    args.shown = handoff->shown;
    args.num_segments = input.num_segments;
    args.live = handoff->live;
    args.ready = handoff->ready + row * kNumLoadParts;
    args.slot_stride = (config_.num_layers + 1) * kNumLoadParts;
    step.stream.offer(args);
  }

  step.stream.gemm(
      {projection.x, projection.w, projection.bias, projection.y, projection.accumulate});
  if (!has_deltas(step, layer, projection.site)) return;
  LoraArgs args;
  args.x = projection.x;
  args.table = step.adapters.matrices + layer * kNumModules + first;
  args.slot_stride = config_.num_layers * kNumModules;
  args.pages = step.adapters.pages;
  for (const TensorView& out : projection.outs) args.out[args.num_modules++] = out;
  args.rows = input.lora_rows;
  args.num_rows = input.num_lora_rows;
  args.segments = offered ? handoff->live : input.segments;
  args.num_segments = input.num_segments;
  args.max_rank = input.max_rank;
  args.max_count = input.max_count;
  args.live = offered;
  if (!input.halved.has(projection.site)) {
    step.stream.lora(args);
  } else if (is_part) {
    sum_halves(step, args);
  } else {
    gather_halves(step, args);
  }
  if (!offered) return;

  AcceptArgs accept;
  static_cast<HandoffJob&>(accept) = job_at(step.job, static_cast<std::size_t>(layer), site);
  static_cast<LoraModules&>(accept) = args;
  accept.is_sum = is_part;
  accept.dtype = dtype_;
  accept.deadline_us = handoff->deadline_us;
  accept.voids = handoff->voids;
  accept.any_xa = handoff->layers[static_cast<std::size_t>(layer)].sites[site].xa_groups != 0;
  step.stream.accept(accept);
}

// Each rank reads a share of A; what they gather is small. A rank writes its share again when the
// sum of the next projection has been taken since.
void LlamaModel::gather_halves(Step& step, LoraArgs args) {
  const std::int64_t width =
      std::int64_t{args.num_modules} * lora_share(args.max_rank, shard_.size);
  const TensorView share = narrow(shared_.share_of_v, step.input.num_rows, width);
  const TensorView all = narrow(work_.v, step.input.num_rows, shard_.size * width);
  args.num_shares = shard_.size;
  args.share = shard_.rank;
  args.part = LoraPart::shrink;
  args.v = share;
  step.stream.lora(args);
  step.stream.all_gather({communicator_, share, all});
  args.part = LoraPart::expand;
  args.v = all;
  step.stream.lora(args);
}

// S-LoRA's way with o and down: every rank adds its columns' deltas to its part of the sum, from
// the sum of all v.
void LlamaModel::sum_halves(Step& step, LoraArgs args) {
  constexpr std::int64_t kAligned = 8;  // columns that a vector has
  const std::int64_t width = lora_share(args.max_rank, 1);
  const TensorView part = narrow(shared_.part_of_v, step.input.num_rows, width);
  const TensorView sum = narrow(work_.v, step.input.num_rows, width);
  args.part = LoraPart::shrink;
  args.v = part;
  step.stream.lora(args);
  step.stream.all_reduce({communicator_, part, sum, false, {}, 0, {}});
  const std::int64_t columns = args.out[0].cols();
  const std::int64_t each =
      (columns + kAligned * shard_.size - 1) / (kAligned * shard_.size) * kAligned;
  const std::int64_t first = std::min(shard_.rank * each, columns);
  args.part = LoraPart::expand;
  args.v = sum;
  args.first_column = static_cast<std::int32_t>(first);
  args.out[0] = args.out[0].slice_cols(first, std::min(each, columns - first));
  if (args.out[0].cols() > 0) step.stream.lora(args);
}

}  // namespace tandem
