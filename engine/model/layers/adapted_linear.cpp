#include "engine/model/layers/adapted_linear.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"

namespace tandem {
namespace {

static_assert(kMaxModulesOfSite == LoraModules::kMaxModules);

// The first bytes of `room` as a dense matrix with `rows` rows, as many as the step has.
TensorView narrow(const TensorView& room, std::int32_t rows, std::int64_t cols) {
  TANDEM_CHECK(rows * cols <= room.num_elements(), "{} rows of {} in {}", rows, cols,
               to_string(room));
  return {room.data, room.dtype, {rows, cols}};
}

// The job of a projection's place, from that of the first place.
HandoffJob job_at(const LayerStep& step, const AdaptedLinear& linear) {
  HandoffJob job = step.job;
  const std::size_t at =
      offer_at(step.part.spec.modules.num_sites(), static_cast<std::size_t>(linear.layer),
               static_cast<std::size_t>(linear.site));
  job.descriptor += at;
  job.tickets += at * kMaxColdGroups;
  if (job.time != nullptr) job.time += at;
  return job;
}

// Each rank reads a share of A, and the gathered v is small. A rank overwrites its share only after
// the sum of the next projection, so all ranks have read it by then.
void gather_halves(LayerStep& step, LoraArgs args) {
  const std::int64_t width =
      std::int64_t{args.num_modules} * lora_share(args.max_rank, step.part.shard.size);
  const TensorView share = narrow(step.shared.share_of_v, step.input.num_rows, width);
  const TensorView all = narrow(step.work.v, step.input.num_rows, step.part.shard.size * width);
  args.num_shares = step.part.shard.size;
  args.share = step.part.shard.rank;
  args.part = LoraPart::shrink;
  args.v = share;
  step.stream.lora(args);
  step.stream.all_gather({step.part.communicator, share, all});
  args.part = LoraPart::expand;
  args.v = all;
  step.stream.lora(args);
}

// The method of S-LoRA for o and down: v is summed over the ranks, and every rank adds the deltas
// of its columns to its part of the sum.
void sum_halves(LayerStep& step, LoraArgs args) {
  constexpr std::int64_t kAligned = 8;  // columns of a vector load
  const std::int64_t width = lora_share(args.max_rank, 1);
  const TensorView part = narrow(step.shared.part_of_v, step.input.num_rows, width);
  const TensorView sum = narrow(step.work.v, step.input.num_rows, width);
  args.part = LoraPart::shrink;
  args.v = part;
  step.stream.lora(args);
  step.stream.all_reduce({step.part.communicator, part, sum, false, {}, 0, {}});
  const std::int64_t columns = args.out[0].cols();
  const std::int64_t each = (columns + kAligned * step.part.shard.size - 1) /
                            (kAligned * step.part.shard.size) * kAligned;
  const std::int64_t first = std::min(step.part.shard.rank * each, columns);
  args.part = LoraPart::expand;
  args.v = sum;
  args.first_column = static_cast<std::int32_t>(first);
  args.adds_bias = step.input.has_bias;  // a rank has columns of its own
  args.out[0] = args.out[0].slice_cols(first, std::min(each, columns - first));
  if (args.out[0].cols() > 0) step.stream.lora(args);
}

// True for projections that are cut by rows, in a shard: it has only its columns of x there, and
// computes a part of the sum.
bool is_part_of_sum(const LayerStep& step, Site site) {
  return !step.part.is_whole() && step.part.spec.modules.cut(site) == ModuleCut::rows;
}

void offer(LayerStep& step, const AdaptedLinear& linear) {
  const StepHandoff& handoff = *step.handoff;
  const std::int64_t num_layers = step.part.spec.num_layers();
  const std::int64_t row = handoff.whole_loads ? num_layers : linear.layer;
  OfferArgs args;
  static_cast<HandoffJob&>(args) = job_at(step, linear);
  args.x = linear.x;
  args.x_is_part = is_part_of_sum(step, linear.site);
  args.shown = handoff.shown;
  args.num_segments = step.input.num_segments;
  args.live = handoff.live;
  args.ready = handoff.ready + row * kNumLoadParts;
  args.slot_stride = (num_layers + 1) * kNumLoadParts;
  step.stream.offer(args);
}

void multiply(LayerStep& step, const AdaptedLinear& linear) {
  std::int64_t first = 0;
  for (const Weight& part : linear.w.parts) {
    const TensorView bias =
        linear.bias.rank == 0 ? linear.bias : linear.bias.slice_cols(first, part.rows());
    const TensorView y = linear.y.slice_cols(first, part.rows());
    step.stream.gemm({linear.x, part, bias, y, linear.accumulate});
    first += part.rows();
  }
}

// The arguments for the modules of a site but for x, outputs, rows and segments.
LoraArgs args_at(const LayerStep& step, std::int64_t layer, Site site) {
  LoraArgs args;
  static_cast<LoraModules&>(args) = modules_at(step, layer, site);
  args.max_rank = step.input.max_rank;
  args.adds_bias = step.input.has_bias;
  return args;
}

// The arguments for the projection's rows, at its own site or at another that changes it.
LoraArgs lora_args(const LayerStep& step, const AdaptedLinear& linear, Site site) {
  const StepInput& input = step.input;
  const std::size_t first = step.part.spec.modules.first_of(linear.site);
  LoraArgs args = args_at(step, linear.layer, site);
  args.x = linear.x;
  // The last modules of a site may not be in this layer; CPU workers give no columns for them.
  std::size_t there = linear.outs.size();
  while (there > 1 && module_out(step.part.spec, linear.layer, first + there - 1) == 0) --there;
  for (const TensorView& out : std::span(linear.outs.begin(), there)) {
    args.out[args.num_modules++] = out;
  }
  args.rows = input.lora_rows;
  args.num_rows = input.num_lora_rows;
  args.segments = input.segments;
  args.num_segments = input.num_segments;
  args.max_count = input.max_count;
  return args;
}

LoraArgs delta_args(const LayerStep& step, const AdaptedLinear& linear, bool offered) {
  LoraArgs args = lora_args(step, linear, linear.site);
  if (offered) args.segments = step.handoff->live;
  args.live = offered;
  if (is_part_of_sum(step, linear.site) && step.part.shard.rank > 0) args.adds_bias = false;
  return args;
}

// The base's bias of each output.
void set_base_bias(const AdaptedLinear& linear, LoraArgs& args) {
  std::int64_t first = 0;
  for (int m = 0; m < args.num_modules && linear.bias.rank != 0; ++m) {
    const std::int64_t columns = args.out[m].cols();
    args.base_bias[m] = linear.bias.slice_cols(first, columns);
    first += columns;
  }
}

// One module at a time: their rows are of different weights.
void replace_products(LayerStep& step, const AdaptedLinear& linear) {
  TANDEM_CHECK(!linear.accumulate, "a sum has no rows to replace");
  LoraArgs all = lora_args(step, linear, whole_of(linear.site));
  set_base_bias(linear, all);
  LoraArgs one = all;
  one.part = LoraPart::replace;
  one.num_modules = 1;
  for (int m = 0; m < all.num_modules; ++m) {
    one.table = all.table + m;
    one.out[0] = all.out[m];
    one.base_bias[0] = all.base_bias[m];
    step.stream.lora(one);
  }
}

// A sum over ranks gets its bias from the first of them.
void replace_biases(LayerStep& step, const AdaptedLinear& linear) {
  if (is_part_of_sum(step, linear.site) && step.part.shard.rank > 0) return;
  LoraArgs args = lora_args(step, linear, bias_of(linear.site));
  set_base_bias(linear, args);
  args.part = LoraPart::biases;
  step.stream.lora(args);
}

void add_deltas(LayerStep& step, Site site, const LoraArgs& args) {
  if (!step.input.halved.has(site)) {
    step.stream.lora(args);
  } else if (is_part_of_sum(step, site)) {
    sum_halves(step, args);
  } else {
    gather_halves(step, args);
  }
}

void accept(LayerStep& step, const AdaptedLinear& linear, const LoraModules& modules) {
  const StepHandoff& handoff = *step.handoff;
  const LayerHandoff& planned = handoff.layers[static_cast<std::size_t>(linear.layer)];
  AcceptArgs args;
  static_cast<HandoffJob&>(args) = job_at(step, linear);
  static_cast<LoraModules&>(args) = modules;
  args.is_sum = is_part_of_sum(step, linear.site);
  args.is_whole = step.part.spec.modules.cut(linear.site) == ModuleCut::none;
  args.dtype = step.part.dtype;
  args.deadline_us = handoff.deadline_us;
  args.timed_out = handoff.timed_out;
  args.any_xa = planned.sites[static_cast<std::size_t>(linear.site)].xa_groups != 0;
  step.stream.accept(args);
}

bool has_deltas(const LayerStep& step, std::int64_t layer, Site site) {
  return step.input.num_segments > 0 &&
         (is_offered(step.handoff, layer, site) || step.input.adapted.has(site));
}

bool replaces_bias(const LayerStep& step, Site site) {
  return may_have_bias(site) && adapts(step, bias_of(site));
}

}  // namespace

LoraModules modules_at(const LayerStep& step, std::int64_t layer, Site site) {
  const ModuleTable& modules = step.part.spec.modules;
  const auto num_modules = static_cast<std::int64_t>(modules.size());
  LoraModules at;
  at.table = step.adapters.matrices + layer * num_modules +
             static_cast<std::int64_t>(modules.first_of(site));
  at.slot_stride = step.part.spec.num_layers() * num_modules;
  at.pages = step.adapters.pages;
  return at;
}

bool replaces(const LayerStep& step, Site site) {
  return adapts(step, whole_of(site));
}

bool changes(const LayerStep& step, std::int64_t layer, Site site) {
  return has_deltas(step, layer, site) || replaces(step, site) || replaces_bias(step, site);
}

void run(LayerStep& step, const AdaptedLinear& linear) {
  const bool offered = is_offered(step.handoff, linear.layer, linear.site);
  if (offered) offer(step, linear);
  multiply(step, linear);
  if (replaces(step, linear.site)) replace_products(step, linear);
  if (replaces_bias(step, linear.site)) replace_biases(step, linear);
  if (!has_deltas(step, linear.layer, linear.site)) return;
  const LoraArgs args = delta_args(step, linear, offered);
  add_deltas(step, linear.site, args);
  if (offered) accept(step, linear, args);
}

bool adapts(const LayerStep& step, Site site) {
  return step.input.num_segments > 0 && step.input.adapted.has(site) &&
         step.part.spec.modules.num_of(site) > 0;
}

void adapt_embedding(LayerStep& step, float scale) {
  const ModelSpec& spec = step.part.spec;
  const StepInput& input = step.input;
  const TensorView& residual = step.work.residual;
  const auto args_of = [&](Site site) {
    LoraArgs args = args_at(step, 0, site);
    args.x = {nullptr, step.part.dtype, {residual.rows(), spec.vocab_size}};
    args.num_modules = 1;
    args.out[0] = residual;
    args.rows = input.lora_rows;
    args.num_rows = input.num_lora_rows;
    args.segments = input.segments;
    args.num_segments = input.num_segments;
    args.max_count = input.max_count;
    args.ids = input.ids;
    args.id_scale = scale;
    return args;
  };
  for (const Site site : {Site::whole_embedding, Site::embedding_tokens}) {
    if (!adapts(step, site)) continue;
    LoraArgs args = args_of(site);
    args.part = site == Site::whole_embedding ? LoraPart::replace : LoraPart::tokens;
    step.stream.lora(args);
  }
  if (adapts(step, Site::embedding)) {
    LoraArgs args = args_of(Site::embedding);
    args.v = narrow(step.work.lookup, input.num_rows, lora_share(args.max_rank, 1));
    args.part = LoraPart::shrink;
    step.stream.lora(args);
    args.ids = nullptr;
    args.part = LoraPart::expand;
    step.stream.lora(args);
  }
}

void adapt_head(LayerStep& step, const TensorView& x, const TensorView& logits) {
  const StepInput& input = step.input;
  for (const Site site : {Site::whole_head, Site::head_tokens, Site::head}) {
    if (!adapts(step, site) || input.num_sampled_segments == 0) continue;
    LoraArgs args = args_at(step, step.part.spec.num_layers() - 1, site);
    args.x = x;
    args.num_modules = 1;
    args.out[0] =
        site == Site::head_tokens ? logits : logits.slice_cols(0, step.part.spec.vocab_size);
    args.rows = input.sampled_lora_rows;
    args.num_rows = input.num_sampled_lora_rows;
    args.segments = input.sampled_segments;
    args.num_segments = input.num_sampled_segments;
    args.max_count = input.max_sampled_count;
    if (site == Site::whole_head) args.part = LoraPart::replace;
    if (site == Site::head_tokens) args.part = LoraPart::tokens;
    step.stream.lora(args);
  }
}

}  // namespace tandem
