// Real engines: Punica's figure 11 and S-LoRA's table 3.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "tools/bench/measure/bench_serving.h"
#include "tools/bench/papers/on_device.h"

namespace tandem::papers {
namespace {

std::vector<DummyAdapter> adapters_of_rank(std::int32_t count, std::int32_t rank) {
  std::vector<DummyAdapter> adapters;
  adapters.reserve(static_cast<std::size_t>(count));
  for (std::int32_t i = 0; i < count; ++i) {
    adapters.push_back({fmt::format("r{}-{}", rank, i), rank, qkv_modules()});
  }
  return adapters;
}

std::vector<std::string> names_of(const std::vector<DummyAdapter>& adapters) {
  std::vector<std::string> names;
  names.reserve(adapters.size());
  for (const DummyAdapter& each : adapters) names.push_back(each.name);
  return names;
}

Result<std::unique_ptr<ServingBench>> serve(const PapersModel& model,
                                            const std::vector<DummyAdapter>& adapters,
                                            std::int32_t batch) {
  EngineSettings settings = model.settings;
  settings.options.max_num_seqs = batch;
  settings.max_model_len = 1040;
  settings.options.max_lora_rank = 64;
  settings.host_tier_gb =
      static_cast<double>(host_tier_bytes_for(model.spec, model.dtype, adapters)) / 1e9;
  TANDEM_ASSIGN(auto bench, ServingBench::start(settings));
  TANDEM_TRY(bench->add_adapters(adapters));
  return bench;
}

}  // namespace

// All requests arrive at once, in batches of 32 as places become free. Loop-wise serving, which the
// paper's baselines do, is a batch of the same adapter only: `one adapter at a time`.
Result<Findings> device_generation(const PapersBench& bench) {
  Findings found;
  TANDEM_ASSIGN(const PapersModel model, papers_model(bench));
  const std::int32_t batch = bench.quick ? 8 : 32;
  const std::int32_t requests = bench.quick ? 16 : model.on_gpu ? 320 : 64;
  const std::int32_t prompt = bench.quick ? 8 : model.on_gpu ? 128 : 32;
  const std::int32_t answer = bench.quick ? 8 : model.on_gpu ? 101 : 32;
  const std::vector<DummyAdapter> adapters = adapters_of_rank(requests, 16);
  const std::vector<std::string> names = names_of(adapters);
  TANDEM_ASSIGN(const auto engine, serve(model, adapters, batch));
  TANDEM_ASSIGN(const ServedLoad warm, engine->burst({names[0], names[1]}, prompt, answer));
  (void)warm;
  std::vector<std::uint64_t> steps;
  double x = 0;
  for (const std::string_view popularity : kPopularities) {
    std::vector<std::string> wanted;
    for (const std::int32_t adapter : adapters_by_popularity(popularity, requests)) {
      wanted.push_back(names[static_cast<std::size_t>(adapter)]);
    }
    const std::uint64_t before = engine->engine().stats().steps;
    TANDEM_ASSIGN(const ServedLoad load, engine->burst(wanted, prompt, answer));
    steps.push_back(engine->engine().stats().steps - before);
    found.add("batched across adapters", x++, load.tokens_per_s());
  }
  // Distinct adapters without batching across them: one request after another.
  double seconds = 0;
  std::int64_t tokens = 0;
  const std::uint64_t before = engine->engine().stats().steps;
  for (std::int32_t i = 0; i < batch; ++i) {
    TANDEM_ASSIGN(const ServedLoad one,
                  engine->burst({names[static_cast<std::size_t>(i)]}, prompt, answer));
    seconds += one.seconds;
    tokens += one.tokens;
  }
  const double alone = static_cast<double>(tokens) / seconds;
  const double alone_steps =
      static_cast<double>(engine->engine().stats().steps - before) * requests / batch;
  found.add("one adapter at a time", 0, alone);
  const auto rate = [&](double i) { return found.at("batched across adapters", i); };
  found.here = fmt::format(
      "tokens/s: distinct {:.0f}, uniform {:.0f}, skewed {:.0f}, identical {:.0f}; one adapter at "
      "a "
      "time {:.0f}; {} steps for distinct, {:.0f} one at a time",
      rate(0), rate(1), rate(2), rate(3), alone, steps[0], alone_steps);
  found.judge(static_cast<double>(steps[0]) < alone_steps / 2 &&
                  static_cast<double>(steps[0]) < 1.5 * static_cast<double>(steps[3]),
              "distinct adapters take as many steps as one at a time, or far more than identical");
  return found;
}

Result<Findings> device_many_adapters(const PapersBench& bench) {
  Findings found;
  found.verdict = Verdict::measured;
  TANDEM_ASSIGN(const PapersModel model, papers_model(bench));
  const std::int32_t many = bench.quick ? 40 : 400;
  const std::int32_t requests = bench.quick ? 12 : model.on_gpu ? 250 : 60;
  const std::int32_t longest = bench.quick ? 16 : model.on_gpu ? 512 : 64;
  struct Variant {
    std::string_view name;
    std::int32_t rank;  // 0: S2's ranks
  };
  for (const Variant& variant : {Variant{"S-LoRA", 0}, Variant{"bmm", 64}}) {
    const std::vector<DummyAdapter> adapters =
        variant.rank == 0 ? s2_adapters(many) : adapters_of_rank(many, variant.rank);
    const std::vector<std::string> names = names_of(adapters);
    TANDEM_ASSIGN(const auto engine, serve(model, adapters, bench.quick ? 8 : 256));
    for (const std::int32_t count : {5, many / 10, many}) {
      ServingBench::Trace trace;
      trace.adapters.assign(names.begin(), names.begin() + count);
      trace.requests = requests;
      trace.rate = 1000;  // more than the engine can serve
      trace.seed = 1;
      trace.longest = longest;
      if (count == 5) {
        trace.requests = requests / 3;
        TANDEM_ASSIGN(const ServedLoad warm, engine->serve(trace));
        (void)warm;
        trace.requests = requests;
      }
      TANDEM_ASSIGN(const ServedLoad load, engine->serve(trace));
      found.add(variant.name, count, load.requests_per_s());
    }
  }
  found.here = fmt::format(
      "requests/s of 5 / {} adapters: {:.2f} / {:.2f}, {:.1f} % kept; padded to rank 64: {:.2f} / "
      "{:.2f}",
      many, found.at("S-LoRA", 5), found.at("S-LoRA", many),
      found.at("S-LoRA", many) / found.at("S-LoRA", 5) * 100, found.at("bmm", 5),
      found.at("bmm", many));
  return found;
}

}  // namespace tandem::papers
