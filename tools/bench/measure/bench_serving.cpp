#include "tools/bench/measure/bench_serving.h"

#include <algorithm>

#include "base/log/log.h"

namespace tandem {
namespace {

using Generations = std::vector<std::unique_ptr<Generation>>;

Result<ServedLoad> read_all(Generations& generations, const Clock& clock, TimePoint start) {
  ServedLoad load;
  for (const auto& generation : generations) {
    while (!generation->done()) {
      TANDEM_ASSIGN([[maybe_unused]] const OutputDelta delta, next_delta(*generation));
    }
    load.tokens += generation->stats().completion_tokens;
    ++load.requests;
  }
  load.seconds = seconds_between(start, clock.now());
  return load;
}

}  // namespace

Result<std::unique_ptr<ServingBench>> ServingBench::start(const EngineSettings& settings) {
  std::unique_ptr<ServingBench> bench(new ServingBench);
  TANDEM_ASSIGN(bench->setup_,
                set_up_engine(settings, {}, LoadReport::terminal_only, FirstCosts::figures));
  return bench;
}

Status ServingBench::add_adapters(std::span<const DummyAdapter> adapters) {
  return add_dummy_adapters(engine().adapter_store(), setup_->spec, setup_->dtype, adapters,
                            [&](std::size_t done) {
                              if (done % 250 != 0) return;
                              log::info("{} of {} adapters made", done, adapters.size());
                            });
}

GenerationRequest ServingBench::request(const std::string& adapter, std::int32_t prompt_tokens,
                                        std::int32_t output_tokens) {
  return random_request({0, adapter, prompt_tokens, output_tokens}, setup_->spec.vocab_size,
                        random_);
}

Result<double> ServingBench::first_token() {
  const TimePoint start = setup_->clock.now();
  TANDEM_ASSIGN(const auto generation, engine().submit(request("", 64, 1)));
  TANDEM_ASSIGN([[maybe_unused]] const OutputDelta delta, next_delta(*generation));
  return seconds_between(start, setup_->clock.now());
}

Result<ServedLoad> ServingBench::burst(const std::vector<std::string>& adapters,
                                       std::int32_t prompt_tokens, std::int32_t output_tokens) {
  std::vector<GenerationRequest> requests;
  requests.reserve(adapters.size());
  for (const std::string& name : adapters) {
    requests.push_back(request(name, prompt_tokens, output_tokens));
  }
  Generations generations;
  const TimePoint start = setup_->clock.now();
  for (GenerationRequest& one : requests) {
    TANDEM_ASSIGN(generations.emplace_back(), engine().submit(std::move(one)));
  }
  return read_all(generations, setup_->clock, start);
}

Result<StepShares> ServingBench::steady_decode(std::int32_t batch, std::int32_t prompt_tokens,
                                               std::int32_t output_tokens,
                                               const GenerationRequest& like) {
  Generations generations;
  for (std::int32_t i = 0; i < batch; ++i) {
    GenerationRequest each = request("", prompt_tokens, output_tokens);
    each.sampling = like.sampling;
    each.constraint = like.constraint;
    each.trace = like.trace;
    TANDEM_ASSIGN(generations.emplace_back(), engine().submit(std::move(each)));
  }
  for (const auto& generation : generations) {
    TANDEM_ASSIGN([[maybe_unused]] const OutputDelta delta, next_delta(*generation));
  }
  const EngineStats before = engine().stats();
  // The first sequence ends first; until a few tokens before its end all sequences are running.
  for (std::int64_t tokens = 0; tokens < output_tokens - 8 && !generations[0]->done();) {
    TANDEM_ASSIGN(const OutputDelta delta, next_delta(*generations[0]));
    tokens += static_cast<std::int64_t>(delta.tokens.size());
  }
  const EngineStats after = engine().stats();
  TANDEM_ASSIGN([[maybe_unused]] const ServedLoad rest,
                read_all(generations, setup_->clock, setup_->clock.now()));
  StepShares shares;
  shares.steps = after.steps - before.steps;
  const double busy = after.step_seconds_total - before.step_seconds_total;
  if (shares.steps == 0 || busy <= 0) {
    return error(StatusCode::internal, "no step ran while {} requests decoded", batch);
  }
  shares.gap = (after.gap_seconds_total - before.gap_seconds_total) / busy;
  shares.step = busy / static_cast<double>(shares.steps);
  return shares;
}

ArrivalTrace ServingBench::arrivals_of(const Trace& trace) {
  std::mt19937_64 random(trace.seed);
  std::vector<double> popularity;
  for (std::size_t i = 0; i < trace.adapters.size(); ++i) {
    popularity.push_back(1.0 / static_cast<double>(i + 1));
  }
  std::discrete_distribution<std::size_t> adapter(popularity.begin(), popularity.end());
  std::uniform_int_distribution<std::int32_t> length(8, trace.longest);
  std::exponential_distribution<double> pause(trace.rate);
  ArrivalTrace arrivals;
  double at = 0;
  for (std::int32_t i = 0; i < trace.requests; ++i) {
    const std::int32_t prompt = length(random);
    const std::int32_t output = length(random);
    arrivals.push_back({at, trace.adapters[adapter(random)], prompt, output});
    at += pause(random);
  }
  return arrivals;
}

Result<ServedLoad> ServingBench::serve(const Trace& trace) {
  TANDEM_ASSIGN(const AnsweredTrace answered,
                run_trace(engine(), setup_->clock, arrivals_of(trace), random_()));
  ServedLoad load;
  load.seconds = answered.seconds;
  for (const AnsweredRequest& request : answered.requests) {
    load.tokens += request.tokens;
    ++load.requests;
  }
  return load;
}

Result<ServingBench::Arrived> ServingBench::arrive(const Arrivals& arrivals) {
  std::mt19937_64 random(arrivals.seed);
  std::exponential_distribution<double> pause(arrivals.rate);
  ArrivalTrace trace;
  double at = 0;
  for (std::int32_t i = 0; i < arrivals.requests; ++i) {
    at += pause(random);
    const auto adapter = static_cast<std::size_t>(i) % arrivals.adapters.size();
    trace.push_back(
        {at, arrivals.adapters[adapter], arrivals.prompt_tokens, arrivals.output_tokens});
  }
  constexpr std::int32_t kPrompt = 64;
  const auto longest = static_cast<std::int32_t>(setup_->engine->model().limits().max_positions);
  TANDEM_ASSIGN(const auto background, engine().submit(request("", kPrompt, longest - kPrompt)));
  TANDEM_ASSIGN([[maybe_unused]] const OutputDelta delta, next_delta(*background));
  const EngineStats before = engine().stats();
  TANDEM_ASSIGN(const AnsweredTrace answered,
                run_trace(engine(), setup_->clock, trace, arrivals.seed));
  const EngineStats after = engine().stats();
  if (background->done()) {
    return error(StatusCode::internal, "the sequence that decodes ended before the last request");
  }
  return Arrived{answered.requests,
                 after.steps - before.steps,
                 after.steps_in_time - before.steps_in_time,
                 after.steps_late - before.steps_late,
                 after.step_seconds_total - before.step_seconds_total,
                 after.gap_seconds_total - before.gap_seconds_total,
                 after.enqueue_margin_s};
}

}  // namespace tandem
