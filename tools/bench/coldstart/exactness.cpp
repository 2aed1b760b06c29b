#include "tools/bench/coldstart/exactness.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/check.h"

namespace tandem {
namespace {

constexpr std::array<std::int32_t, 4> kPrompts = {1, 7, 33, 100};
constexpr std::int32_t kTogether = 4;
constexpr std::int32_t kTogetherPrompt = 9;
constexpr std::int32_t kOutput = 12;
constexpr std::uint64_t kSeed = 8;

Result<std::vector<ExactAnswer>> ask(ColdEngine& engine, const ArrivalTrace& trace,
                                     std::mt19937_64& random) {
  std::vector<std::unique_ptr<Generation>> generations;
  for (const TracedRequest& traced : trace) {
    GenerationRequest request = random_request(traced, engine.setup().spec.vocab_size, random);
    request.num_logprobs = 5;
    request.prompt_logprobs = true;
    TANDEM_ASSIGN(generations.emplace_back(), engine.engine().submit(std::move(request)));
  }
  std::vector<ExactAnswer> answers;
  for (const auto& generation : generations) {
    ExactAnswer& answer = answers.emplace_back();
    while (!generation->done()) {
      TANDEM_ASSIGN(OutputDelta delta, next_delta(*generation));
      std::move(delta.prompt_logprobs.begin(), delta.prompt_logprobs.end(),
                std::back_inserter(answer.prompt));
      std::move(delta.logprobs.begin(), delta.logprobs.end(), std::back_inserter(answer.output));
    }
  }
  return answers;
}

// The reference's log-probability of its own choice minus that of `token`; infinite if `token` is
// not among the reference's best tokens.
double doubt(const TokenLogprob& reference, TokenId token) {
  for (const auto& [candidate, logprob] : reference.top) {
    if (candidate == token) return static_cast<double>(reference.logprob - logprob);
  }
  return HUGE_VAL;
}

double difference(const TokenLogprob& a, const TokenLogprob& b) {
  const auto apart = static_cast<double>(std::abs(a.logprob - b.logprob));
  return std::isfinite(apart) ? apart : HUGE_VAL;
}

Agreement compare(const ExactAnswer& reference, const ExactAnswer& answer, double tolerance) {
  Agreement agreement;
  TANDEM_CHECK(reference.prompt.size() == answer.prompt.size() &&
                   reference.output.size() == answer.output.size(),
               "answers of {} and {} tokens", reference.output.size(), answer.output.size());
  for (std::size_t i = 0; i < reference.prompt.size(); ++i) {
    agreement.max_difference =
        std::max(agreement.max_difference, difference(reference.prompt[i], answer.prompt[i]));
  }
  for (std::size_t i = 0; i < reference.output.size(); ++i) {
    const TokenLogprob& expected = reference.output[i];
    const TokenLogprob& got = answer.output[i];
    ++agreement.tokens;
    if (expected.token != got.token) {
      ++(doubt(expected, got.token) <= tolerance ? agreement.near_ties : agreement.wrong_tokens);
      break;
    }
    agreement.max_difference = std::max(agreement.max_difference, difference(expected, got));
  }
  return agreement;
}

}  // namespace

Result<std::vector<ExactAnswer>> exact_answers(ColdEngine& engine, std::int32_t rank) {
  std::mt19937_64 random(kSeed);
  TANDEM_ASSIGN(const std::vector<std::string> names,
                engine.add(static_cast<std::int32_t>(kPrompts.size()) + kTogether, rank));
  std::vector<ExactAnswer> answers;
  for (std::size_t i = 0; i < kPrompts.size(); ++i) {
    TANDEM_ASSIGN(const auto alone,
                  ask(engine, burst_trace({names[i]}, kPrompts[i], kOutput), random));
    answers.insert(answers.end(), alone.begin(), alone.end());
  }
  const std::vector<std::string> rest(names.begin() + kPrompts.size(), names.end());
  TANDEM_ASSIGN(const auto together,
                ask(engine, burst_trace(rest, kTogetherPrompt, kOutput), random));
  answers.insert(answers.end(), together.begin(), together.end());
  TANDEM_TRY(engine.clear());
  return answers;
}

Result<double> adapter_effect(ColdEngine& engine, std::int32_t rank) {
  TANDEM_ASSIGN(const std::vector<std::string> names, engine.add(1, rank));
  std::vector<ExactAnswer> answers;
  for (const std::string& name : {names.front(), std::string()}) {
    std::mt19937_64 random(kSeed);
    TANDEM_ASSIGN(const auto answer, ask(engine, burst_trace({name}, kPrompts.back(), 1), random));
    answers.push_back(answer.front());
  }
  double effect = 0;
  for (std::size_t i = 0; i < answers[0].prompt.size(); ++i) {
    effect = std::max(effect, difference(answers[0].prompt[i], answers[1].prompt[i]));
  }
  TANDEM_TRY(engine.clear());
  return effect;
}

double logprob_tolerance(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return 1e-3;
    case DType::f16:
      return 0.03;
    default:
      return 0.15;
  }
}

void Agreement::add(const Agreement& other) {
  tokens += other.tokens;
  wrong_tokens += other.wrong_tokens;
  near_ties += other.near_ties;
  max_difference = std::max(max_difference, other.max_difference);
}

Agreement compare_answers(const std::vector<ExactAnswer>& reference,
                          const std::vector<ExactAnswer>& answers, double tolerance) {
  Agreement agreement;
  TANDEM_CHECK(reference.size() == answers.size(), "{} and {} answers", reference.size(),
               answers.size());
  for (std::size_t i = 0; i < reference.size(); ++i) {
    agreement.add(compare(reference[i], answers[i], tolerance));
  }
  return agreement;
}

}  // namespace tandem
