#include "tools/bench/engine/bench_activated.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/log/log.h"
#include "tools/bench/measure/bench_adapters.h"
#include "tools/bench/measure/bench_serving.h"
#include "tools/bench/measure/bench_trace.h"

namespace tandem {
namespace {

constexpr std::int32_t kActivated = 20;
constexpr std::int32_t kActivatedRank = 32;
constexpr std::int64_t kBasePrefix = 8192;
constexpr std::int32_t kPromptEnd = 32;  // tokens behind the prefix; they begin with the invocation
constexpr double kActivatedBar = 1.0 / 20;
const std::vector<TokenId> kInvocation = {11, 12, 13, 14};

std::vector<DummyAdapter> adapters_of(const std::string& kind,
                                      const std::vector<TokenId>& invocation) {
  std::vector<DummyAdapter> adapters;
  adapters.reserve(kActivated);
  for (std::int32_t i = 0; i < kActivated; ++i) {
    adapters.push_back(
        {fmt::format("{}-{}", kind, i), kActivatedRank, qkv_modules(), {}, invocation});
  }
  return adapters;
}

// Seconds from the request to its first token; the answer has two.
Result<double> first_token(ServingBench& bench, const std::string& adapter,
                           const std::vector<TokenId>& prompt) {
  GenerationRequest request;
  request.adapter = adapter;
  request.prompt = prompt;
  request.sampling.temperature = 0;
  request.max_tokens = 2;
  request.ignore_eos = true;
  const TimePoint start = bench.setup().clock.now();
  TANDEM_ASSIGN(const auto generation, bench.engine().submit(std::move(request)));
  TANDEM_ASSIGN([[maybe_unused]] const OutputDelta first, next_delta(*generation));
  const double seconds = seconds_between(start, bench.setup().clock.now());
  while (!generation->done()) {
    TANDEM_ASSIGN([[maybe_unused]] const OutputDelta delta, next_delta(*generation));
  }
  return seconds;
}

}  // namespace

Status measure_activated(const EngineSettings& settings, BenchReport& report) {
  EngineSettings with = settings;
  with.options.max_lora_rank = kActivatedRank;
  with.options.max_device_adapters = 2 * kActivated;
  with.cpu_workers = 0;  // all adapters are resident
  TANDEM_ASSIGN(const auto bench, ServingBench::start(with));
  const std::int64_t vocab = bench->setup().spec.vocab_size;
  const std::int64_t prefix =
      std::min<std::int64_t>(kBasePrefix, bench->setup().spec.max_position_embeddings / 2);
  std::vector<DummyAdapter> adapters = adapters_of("activated", kInvocation);
  for (DummyAdapter& plain : adapters_of("plain", {})) adapters.push_back(std::move(plain));
  TANDEM_TRY(bench->add_adapters(adapters));
  std::mt19937_64 random(5);
  std::uniform_int_distribution<TokenId> any(100, static_cast<TokenId>(vocab) - 1);
  const auto tokens = [&](std::int64_t count) {
    std::vector<TokenId> drawn(static_cast<std::size_t>(count));
    for (TokenId& token : drawn) token = any(random);
    return drawn;
  };
  log::info("loading {} adapters", adapters.size());
  for (const DummyAdapter& adapter : adapters) {
    TANDEM_TRY(first_token(*bench, adapter.name, tokens(kPromptEnd)).status());
  }
  const std::vector<TokenId> shared = tokens(prefix);
  TANDEM_TRY(first_token(*bench, "", shared).status());
  Samples activated{
      fmt::format("first token, activated, {} tokens of the base cached", prefix), "ms", {}};
  Samples plain{fmt::format("first token, plain, the same {} tokens", prefix), "ms", {}};
  std::uint64_t found = 0;
  for (std::int32_t i = 0; i < kActivated; ++i) {
    std::vector<TokenId> prompt = shared;
    prompt.insert(prompt.end(), kInvocation.begin(), kInvocation.end());
    const std::vector<TokenId> end =
        tokens(kPromptEnd - static_cast<std::int64_t>(kInvocation.size()));
    prompt.insert(prompt.end(), end.begin(), end.end());
    const std::uint64_t before = bench->engine().stats().prefix_hits;
    TANDEM_ASSIGN(const double one, first_token(*bench, fmt::format("activated-{}", i), prompt));
    found += bench->engine().stats().prefix_hits - before;
    TANDEM_ASSIGN(const double other, first_token(*bench, fmt::format("plain-{}", i), prompt));
    activated.values.push_back(one * 1e3);
    plain.values.push_back(other * 1e3);
  }
  report.add(activated);
  report.add(plain);
  report.fact("tokens that an activated adapter found in the prefix cache",
              fmt::format("{} of {}", found / kActivated, prefix));
  report.add({"A3",
              fmt::format("activated LoRA over {} tokens of the base, over plain: median "
                          "first token",
                          prefix),
              activated.median() / plain.median(), "", Must::be_at_most, kActivatedBar});
  return {};
}

}  // namespace tandem
