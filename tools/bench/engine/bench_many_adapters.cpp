#include "tools/bench/engine/bench_many_adapters.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "base/limits/bytes_text.h"
#include "base/log/log.h"
#include "gpu/cuda/copy_speed.h"
#include "tools/bench/measure/bench_gemm_peak.h"
#include "tools/bench/measure/bench_serving.h"
#include "tools/bench/measure/byte_floor.h"
#include "tools/setup/engine_setup.h"
#include "tools/setup/gpus.h"

namespace tandem {
namespace {

constexpr std::int32_t kMany = 2000;
constexpr std::int32_t kFew = 5;
// More than the engine can serve, so that the measured rate is the engine's limit.
constexpr double kLoadRate = 100;
constexpr std::uint64_t kLoadRounds = 2;

ServingBench::Trace trace_of(const std::vector<std::string>& names, std::uint64_t round) {
  return {names, round == 0 ? 64 : 300, kLoadRate, round + 1};  // the first round warms up
}

// Measures copy speed and matrix products of the device before an engine takes its memory.
Status measure_device(const EngineSettings& settings, DType dtype, ByteCosts& costs) {
  TANDEM_ASSIGN(costs.copy, measure_cuda_copy_speed(first_gpu(settings)));
  TANDEM_ASSIGN(const auto device, make_device(settings));
  TANDEM_ASSIGN(const auto peak, GemmPeak::create(*device, dtype));
  TANDEM_TRY(peak->sample(10));
  costs.products = peak->take("before any request").median() * 1e12;
  return {};
}

void add_sizes(ServingBench& bench, const EngineSettings& settings,
               const std::vector<DummyAdapter>& adapters, ByteCosts& costs) {
  const ModelSpec& spec = bench.setup().spec;
  const DType dtype = bench.setup().dtype;
  const auto element = static_cast<double>(size_of(dtype));
  costs.weight_bytes = static_cast<double>(bench.engine().model().weight_bytes());
  costs.token_bytes = 2.0 * static_cast<double>(spec.all_keys()) * element;
  costs.token_products = 2 * costs.weight_bytes / element;
  for (const DummyAdapter& adapter : adapters) {
    costs.adapter_bytes[adapter.name] = static_cast<double>(adapter_bytes(spec, dtype, adapter));
  }
  costs.max_sequences = settings.options.max_num_seqs;
  costs.max_prompt_tokens = settings.options.max_num_batched_tokens;
  const EngineStats stats = bench.engine().stats();
  costs.pool_bytes = static_cast<double>(stats.pages_total * stats.page_tokens) * costs.token_bytes;
}

// Requests per second.
double most_requests(const std::vector<std::string>& names, const ByteCosts& costs) {
  double seconds = 0;
  double requests = 0;
  for (std::uint64_t round = 1; round <= kLoadRounds; ++round) {
    const ArrivalTrace arrivals = ServingBench::arrivals_of(trace_of(names, round));
    seconds += least_seconds(arrivals, costs);
    requests += static_cast<double>(arrivals.size());
  }
  return requests / seconds;
}

}  // namespace

Status measure_many_adapters(const EngineSettings& engine_settings, const ModelSpec& spec,
                             DType dtype, BenchReport& report) {
  EngineSettings settings = engine_settings;
  settings.options.max_num_seqs = 256;
  settings.options.max_num_batched_tokens = 2048;
  settings.max_model_len = 1040;
  settings.options.max_lora_rank = 64;
  ByteCosts costs;
  TANDEM_TRY(measure_device(settings, dtype, costs));

  const std::vector<DummyAdapter> adapters = s2_adapters(kMany);
  std::vector<std::string> names;
  names.reserve(adapters.size());
  for (const DummyAdapter& adapter : adapters) names.push_back(adapter.name);
  const std::vector<std::string> few(names.begin(), names.begin() + kFew);
  const std::size_t bytes = host_tier_bytes_for(spec, dtype, adapters);
  settings.host_tier_gb = static_cast<double>(bytes) / 1e9;
  log::info("starting an engine with a host tier of {}", bytes_text(static_cast<double>(bytes)));
  TANDEM_ASSIGN(const auto bench, ServingBench::start(settings));
  TANDEM_TRY(bench->add_adapters(adapters));

  Samples of_few{"S2 workload, 5 adapters", "requests/s", {}};
  Samples of_many{"S2 workload, 2000 adapters", "requests/s", {}};
  for (std::uint64_t round = 0; round <= kLoadRounds; ++round) {
    for (Samples* samples : {&of_few, &of_many}) {
      log::info("{}, round {} of {}", samples->name, round + 1, kLoadRounds + 1);
      TANDEM_ASSIGN(const ServedLoad load,
                    bench->serve(trace_of(samples == &of_few ? few : names, round)));
      if (round > 0) samples->values.push_back(load.requests_per_s());
    }
  }
  report.add(of_few);
  report.add(of_many);
  add_sizes(*bench, settings, adapters, costs);
  const double most_few = most_requests(few, costs);
  const double most_many = most_requests(names, costs);
  report.fact("S2 workload if steps did nothing but read",
              fmt::format("{:.1f} requests/s of 5 adapters, {:.1f} of {}: {:.3f}", most_few,
                          most_many, kMany, most_many / most_few));
  report.add({"G9", "2,000 adapters in the host tier over 5, requests/s, S2 workload",
              of_many.median() / of_few.median(), "", Must::be_at_least, 0.97});
  return {};
}

}  // namespace tandem
