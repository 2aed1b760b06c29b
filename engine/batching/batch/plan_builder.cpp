#include "engine/batching/batch/plan_builder.h"

#include <algorithm>
#include <limits>

namespace tandem {
namespace {

// Continuation 0 uses the request's seed, so that n = 1 and the first of n agree; the others use
// seeds that a 64-bit mixing step sends far apart (the finaliser of SplitMix64).
std::uint64_t seed_of(const Sequence& sequence) {
  if (sequence.index == 0) return sequence.context().seed;
  std::uint64_t z =
      sequence.context().seed + 0x9e3779b97f4a7c15ULL * static_cast<std::uint64_t>(sequence.index);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

SampleRow row_of(const Sequence& sequence) {
  const SamplingParams& params = sequence.context().request.sampling;
  SampleRow row;
  row.temperature = static_cast<float>(params.temperature);
  row.top_p = static_cast<float>(params.top_p);
  row.min_p = static_cast<float>(params.min_p);
  row.top_k = params.top_k;
  row.repetition_penalty = static_cast<float>(params.repetition_penalty);
  row.presence_penalty = static_cast<float>(params.presence_penalty);
  row.frequency_penalty = static_cast<float>(params.frequency_penalty);
  row.num_logprobs = sequence.context().request.num_logprobs;
  row.prompt_len = static_cast<std::int32_t>(sequence.tokens.prompt_len());
  row.seed = seed_of(sequence);
  row.position = sequence.tokens.all().size();
  return row;
}

template <typename T>
std::int32_t count_of(const std::vector<T>& list) {
  return static_cast<std::int32_t>(list.size());
}

template <typename T, typename Values>
StepPlan::Range append(std::vector<T>& list, const Values& values) {
  const std::int32_t first = count_of(list);
  list.insert(list.end(), values.begin(), values.end());
  return {first, count_of(list) - first};
}

StepPlan::Range append_tables(std::vector<PageId>& list, const BlockTable& table) {
  const std::int32_t first = count_of(list);
  for (std::int32_t group = 0; group < table.num_groups(); ++group) {
    append(list, table.pages(group));
  }
  return {first, count_of(list) - first};
}

// Row p gives the log probability of prompt token p + 1, or its own state; after a preemption some
// are known or requested already. Returns how many it added.
std::int32_t add_prompt_rows(const Sequence& sequence, std::int64_t end, StepPlan& plan) {
  if (!sequence.prompt_logprobs.are_wanted()) return 0;
  const std::int32_t before = count_of(plan.samples);
  const std::int64_t last = std::min(end, sequence.tokens.prompt_len() - 1);
  for (std::int64_t p = std::max(sequence.computed(), sequence.prompt_logprobs.asked()); p < last;
       ++p) {
    SampleRow row;
    const bool pools = sequence.context().request.pooling != Pooling::none;
    // A model without a head may have no logits for a token of an adapter's own.
    if (!pools) row.forced_token = sequence.tokens.all()[static_cast<std::size_t>(p + 1)];
    row.num_logprobs = std::max(sequence.context().request.num_logprobs, 0);
    plan.samples.push_back({static_cast<std::int32_t>(p - sequence.computed()), row, pools});
  }
  return count_of(plan.samples) - before;
}

void add_next_token(const Sequence& sequence, std::int32_t row_in_entry, StepPlan& plan) {
  const GenerationRequest& request = sequence.context().request;
  SampleRow row = row_of(sequence);
  row.bias = count_of(plan.biases);
  for (const auto& [token, bias] : request.sampling.logit_bias) {
    plan.biases.push_back({token, bias});
  }
  // For a constraint, the mask decides when an end token may come (fill_masks).
  const bool constrained = sequence.filter != nullptr && sequence.filter->has_constraint();
  if (sequence.tokens.output_len() < request.min_tokens && !constrained) {
    constexpr float kBan = -std::numeric_limits<float>::infinity();
    for (const TokenId token : request.stop_token_ids) plan.biases.push_back({token, kBan});
    if (!request.ignore_eos) {
      for (const TokenId token : sequence.context().end_tokens)
        plan.biases.push_back({token, kBan});
    }
  }
  row.num_biases = count_of(plan.biases) - row.bias;
  if (request.sampling.has_penalty()) {
    const StepPlan::Range history = append(plan.history, sequence.tokens.all());
    row.history = history.first;
    row.history_len = history.count;
  }
  if (sequence.filter != nullptr) row.mask = plan.num_masks++;
  plan.samples.push_back({row_in_entry, row, request.pooling != Pooling::none});
}

}  // namespace

void build_plan(std::span<const ScheduledSequence> scheduled, const DeviceTier& tier,
                StepPlan& plan, std::vector<PlannedEntry>& entries) {
  plan.clear();
  entries.clear();
  for (const auto& [sequence, num_tokens] : scheduled) {
    const std::int64_t computed = sequence->computed();
    const std::int64_t end = computed + num_tokens;
    const bool samples_next = end == sequence->tokens.size();
    const std::int64_t unadapted = sequence->unadapted_left();
    const ServedAdapter* const adapter =
        unadapted < num_tokens ? sequence->context().adapter.get() : nullptr;
    StepPlan::Entry& entry = plan.entries.emplace_back();
    entry.id = sequence->arrival;
    entry.start = computed;
    entry.rotary_length = sequence->pages.rotary_length();
    entry.tokens = append(plan.tokens, std::span(sequence->tokens.all())
                                           .subspan(static_cast<std::size_t>(computed),
                                                    static_cast<std::size_t>(num_tokens)));
    entry.pages = append_tables(plan.pages, sequence->pages.table());
    if (adapter != nullptr) {
      entry.adapter = tier.slot(*adapter);
      entry.first_adapted = static_cast<std::int32_t>(unadapted);
    }
    entry.samples.first = count_of(plan.samples);
    const std::int32_t prompt_rows = add_prompt_rows(*sequence, end, plan);
    if (samples_next) add_next_token(*sequence, num_tokens - 1, plan);
    entry.samples.count = count_of(plan.samples) - entry.samples.first;

    PlannedEntry& planned = entries.emplace_back();
    planned.sequence = sequence;
    planned.samples = entry.samples;
    planned.next_token = samples_next ? sequence->tokens.size() : -1;
    planned.replays = sequence->replays();
    planned.slot = entry.adapter.slot;
    if (adapter != nullptr) planned.proof = tier.proof(*adapter);
    if (samples_next) planned.mask = plan.samples.back().how.mask;
    sequence->enter_step(num_tokens, prompt_rows, entry.samples.first + prompt_rows);
  }
}

}  // namespace tandem
