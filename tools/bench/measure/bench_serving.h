// Load on an engine through Engine::submit, without a server. Requests are made from seeds.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/batching/engine.h"
#include "tools/bench/measure/bench_adapters.h"
#include "tools/bench/measure/bench_trace.h"
#include "tools/settings/engine_settings.h"
#include "tools/setup/engine_setup.h"

namespace tandem {

struct ServedLoad {
  double seconds = 0;  // first submission -> last answer
  std::int64_t requests = 0;
  std::int64_t tokens = 0;  // generated

  double tokens_per_s() const { return static_cast<double>(tokens) / seconds; }
  double requests_per_s() const { return static_cast<double>(requests) / seconds; }
};

// Shares of the device's time, from the engine's statistics.
struct StepShares {
  double gap = 0;   // time the device waited for the host / time it worked
  double step = 0;  // seconds of one step
  std::uint64_t steps = 0;
};

class ServingBench {
 public:
  static Result<std::unique_ptr<ServingBench>> start(const EngineSettings& settings);

  // Logs the progress now and then.
  Status add_adapters(std::span<const DummyAdapter> adapters);

  // Answers one prompt with one token; returns seconds.
  Result<double> first_token();
  // Sends one request per name (empty: the base model), all at once.
  Result<ServedLoad> burst(const std::vector<std::string>& adapters, std::int32_t prompt_tokens,
                           std::int32_t output_tokens);
  // Statistics of a period in which exactly `batch` requests of the base model decode, with the
  // sampling, constraint and tracing of `like`.
  Result<StepShares> steady_decode(std::int32_t batch, std::int32_t prompt_tokens,
                                   std::int32_t output_tokens, const GenerationRequest& like);

  // S-LoRA's synthetic workload (its section 7.2): Poisson arrivals (Gamma with cv 1) at `rate`,
  // adapters by a power law with exponent 1, lengths of prompt and answer uniform in [8, longest];
  // the paper's `longest` is 512.
  struct Trace {
    std::vector<std::string> adapters;  // the most popular first
    std::int32_t requests = 0;
    double rate = 0;  // per second
    std::uint64_t seed = 0;
    std::int32_t longest = 512;
  };
  static ArrivalTrace arrivals_of(const Trace& trace);
  Result<ServedLoad> serve(const Trace& trace);

  // Greedy requests of equal lengths with Poisson arrivals, cycling through the adapters, while one
  // sequence of the base model decodes from before the first until after the last.
  struct Arrivals {
    std::vector<std::string> adapters;
    std::int32_t requests = 0;
    double rate = 0;  // per second
    std::int32_t prompt_tokens = 0;
    std::int32_t output_tokens = 0;
    std::uint64_t seed = 0;
  };
  struct Arrived {
    std::vector<AnsweredRequest> requests;
    std::uint64_t steps = 0;    // during the run
    std::uint64_t in_time = 0;  // steps enqueued just in time (EngineStats)
    std::uint64_t late = 0;
    double step_s = 0;
    double gap_s = 0;
    double margin_s = 0;  // at the end
  };
  Result<Arrived> arrive(const Arrivals& arrivals);

  Engine& engine() { return *setup_->engine; }
  const EngineSetup& setup() const { return *setup_; }

 private:
  ServingBench() = default;
  GenerationRequest request(const std::string& adapter, std::int32_t prompt_tokens,
                            std::int32_t output_tokens);

  std::unique_ptr<EngineSetup> setup_;
  std::mt19937_64 random_{1};
};

}  // namespace tandem
