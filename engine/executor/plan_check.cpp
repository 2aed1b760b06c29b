#include "engine/executor/plan_check.h"

#include <cmath>
#include <limits>
#include <span>
#include <string_view>

namespace tandem {
namespace {

Status check_count(std::string_view what, std::size_t count, std::int64_t most) {
  if (static_cast<std::uint64_t>(count) <= static_cast<std::uint64_t>(most)) return {};
  return invalid("{} {}, at most {}", count, what, most);
}

Status check_range(std::string_view what, std::int64_t first, std::int64_t count,
                   std::size_t size) {
  if (first >= 0 && count >= 0 && first + count <= static_cast<std::int64_t>(size)) return {};
  return invalid("{} {} .. {} of {}", what, first, first + count, size);
}

// Checks that each entry's part begins where the part of the entry before it ends.
Status check_next(std::string_view what, StepPlan::Range range, std::int64_t& end,
                  std::size_t size) {
  if (range.first != end) return invalid("{} begin at {}, not at {}", what, range.first, end);
  TANDEM_TRY(check_range(what, range.first, range.count, size));
  end += range.count;
  return {};
}

Status check_tokens(std::string_view what, std::span<const TokenId> tokens, std::int64_t vocab,
                    std::int64_t samples_before) {
  for (const TokenId token : tokens) {
    if (token >= -samples_before && token < vocab) continue;
    return invalid("{} {} is not in {} .. {}", what, token, -samples_before, vocab - 1);
  }
  return {};
}

bool in_range(float value, float low, float high) {
  return value >= low && value <= high;  // false for NaN
}

Status check_sample(const StepPlan::Sample& sample, std::int32_t rows, const StepPlan& plan,
                    std::int64_t vocab) {
  const SampleRow& how = sample.how;
  constexpr float kMost = std::numeric_limits<float>::max();
  if (sample.row < 0 || sample.row >= rows) return invalid("row {} of {}", sample.row, rows);
  if (!in_range(how.temperature, 0, kMost)) return invalid("temperature {}", how.temperature);
  if (!in_range(how.top_p, 0, 1)) return invalid("top_p {}", how.top_p);
  if (!in_range(how.min_p, 0, 1)) return invalid("min_p {}", how.min_p);
  if (how.top_k < 0) return invalid("top_k {}", how.top_k);
  for (const float penalty :
       {how.repetition_penalty, how.presence_penalty, how.frequency_penalty}) {
    if (!std::isfinite(penalty)) return invalid("penalty {}", penalty);
  }
  if (how.num_logprobs < -1 || how.num_logprobs > SampledToken::kMaxLogprobs) {
    return invalid("num_logprobs {}", how.num_logprobs);
  }
  if (how.forced_token < -1 || how.forced_token >= vocab) {
    return invalid("forced token {}", how.forced_token);
  }
  if (how.mask < -1 || how.mask >= plan.num_masks || how.zero != 0) {
    return invalid("mask {} of {}", how.mask, plan.num_masks);
  }
  if (how.prompt_len < 0) return invalid("prompt_len {}", how.prompt_len);
  TANDEM_TRY(check_range("history", how.history, how.history_len, plan.history.size()));
  return check_range("biases", how.bias, how.num_biases, plan.biases.size());
}

}  // namespace

Status check_plan(const StepPlan& plan, const PlanLimits& limits, std::int32_t samples_before) {
  const StepLimits& step = limits.step;
  if (plan.entries.empty()) return invalid("a step of no entries");
  TANDEM_TRY(check_count("entries", plan.entries.size(), step.max_sequences));
  TANDEM_TRY(check_count("tokens", plan.tokens.size(), step.max_rows));
  TANDEM_TRY(check_count("samples", plan.samples.size(), step.max_samples));
  if (plan.num_masks < 0 || plan.num_masks > step.max_sequences) {
    return invalid("{} masks, at most {}", plan.num_masks, step.max_sequences);
  }
  TANDEM_TRY(check_tokens("token", plan.tokens, limits.vocab_size, samples_before));
  TANDEM_TRY(check_tokens("token of a history", plan.history, limits.vocab_size, samples_before));
  for (const PageId page : plan.pages) {
    if (page.value() < 0 || page.value() >= limits.num_pages) {
      return invalid("page {} of {}", page.value(), limits.num_pages);
    }
  }
  for (const TokenBias& bias : plan.biases) {
    if (bias.token < 0 || bias.token >= limits.vocab_size || std::isnan(bias.bias)) {
      return invalid("bias {} of token {}", bias.bias, bias.token);
    }
  }
  std::int64_t tokens = 0, pages = 0, samples = 0, used_pages = 0, history = 0, biases = 0;
  for (const StepPlan::Entry& entry : plan.entries) {
    TANDEM_TRY(check_next("tokens", entry.tokens, tokens, plan.tokens.size()));
    TANDEM_TRY(check_next("pages", entry.pages, pages, plan.pages.size()));
    TANDEM_TRY(check_next("samples", entry.samples, samples, plan.samples.size()));
    if (entry.tokens.count < 1) return invalid("an entry of no tokens");
    if (entry.start < 0 || entry.start > limits.model.max_positions - entry.tokens.count) {
      return invalid("positions {} and on of {}", entry.start, limits.model.max_positions);
    }
    if (entry.first_adapted < 0 || entry.first_adapted >= entry.tokens.count) {
      return invalid("the adapter acts from token {} of {}", entry.first_adapted,
                     entry.tokens.count);
    }
    if (entry.rotary_length < 0 || entry.rotary_length > limits.model.max_positions) {
      return invalid("a rotary length of {}, at most {}", entry.rotary_length,
                     limits.model.max_positions);
    }
    const std::int64_t needed =
        (entry.start + entry.tokens.count + limits.page_tokens - 1) / limits.page_tokens;
    if (entry.pages.count < needed * step.page_groups ||
        entry.pages.count % step.page_groups != 0) {
      return invalid("{} pages where {} are needed for each of {} groups of layers",
                     entry.pages.count, needed, step.page_groups);
    }
    used_pages += needed;
    for (std::int32_t i = 0; i < entry.samples.count; ++i) {
      const StepPlan::Sample& sample =
          plan.samples[static_cast<std::size_t>(entry.samples.first) + static_cast<std::size_t>(i)];
      TANDEM_TRY(check_sample(sample, entry.tokens.count, plan, limits.vocab_size));
      history += sample.how.history_len;
      biases += sample.how.num_biases;
    }
  }
  // Every token, page and sample must belong to an entry: others are a sign of an error.
  if (tokens != static_cast<std::int64_t>(plan.tokens.size()) ||
      pages != static_cast<std::int64_t>(plan.pages.size()) ||
      samples != static_cast<std::int64_t>(plan.samples.size())) {
    return invalid("tokens, pages or samples of no entry");
  }
  TANDEM_TRY(check_count("page ids", static_cast<std::size_t>(used_pages), step.max_pages));
  TANDEM_TRY(
      check_count("tokens of histories", static_cast<std::size_t>(history), step.max_history));
  return check_count("biases", static_cast<std::size_t>(biases), step.max_biases);
}

}  // namespace tandem
