#include "tools/profile/measure/first_tokens_measure.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/log/log.h"
#include "cpu_lora/topology/machine_map.h"
#include "tools/bench/coldstart/cold_adapters.h"
#include "tools/bench/coldstart/cold_engine.h"
#include "tools/bench/measure/bench_trace.h"
#include "tools/profile/predict/first_tokens.h"

namespace tandem {
namespace {

constexpr std::array<std::int32_t, 4> kRows = {8, 32, 64, 128};
constexpr std::int32_t kOutput = 2;  // only the first token counts
constexpr std::int32_t kContext = 512;
constexpr int kRequestRounds = 6;  // the first one is not counted
constexpr int kQuickRounds = 2;    // all are counted
constexpr double kQuickSeconds = 4;

// Seconds to the first token in one case.
struct TokenSamples {
  std::vector<double> cold, resident;
};

class FirstTokens {
 public:
  FirstTokens(const EngineSettings& engine, const ProfileTarget& target, Profile& profile)
      : engine_(engine),
        target_(target),
        profile_(profile),
        adapters_(target.stored, target.dtype, static_cast<std::int32_t>(target.devices.size())) {}

  Status go() {
    // The engine reads the profile from a file, as a server does.
    TANDEM_ASSIGN(const ScratchFolder scratch, ScratchFolder::create());
    const std::filesystem::path path = scratch.path() / "profile.json";
    TANDEM_TRY(write_profile(profile_, path));
    const std::size_t all = target_.worker_cpus.size();
    TANDEM_TRY(measure(path, all));
    if (!target_.quick && all > 1) TANDEM_TRY(measure(path, all / 2));
    predict();
    return {};
  }

 private:
  EngineSettings settings_with(const std::filesystem::path& path, std::size_t workers) const {
    EngineSettings with = engine_;
    with.load_format = "dummy";
    with.profile = path.string();
    with.options.adapter_mode = AdapterMode::planned;
    const auto& cpus = target_.worker_cpus;
    with.worker_cpus =
        format_id_list({cpus.begin(), cpus.begin() + static_cast<std::ptrdiff_t>(workers)});
    with.cpu_workers = static_cast<std::int64_t>(workers);
    // On a host device the threads' cpus are left as they are.
    if (with.cpus.empty() && target_.devices.front()->info().is_cuda) {
      with.cpus = format_id_list(target_.engine_cpus);
    }
    with.record_steps.clear();
    with.options.prefix_cache = false;
    with.options.max_lora_rank = std::max(with.options.max_lora_rank, kBudgetRank);
    const auto adapters = static_cast<std::int32_t>(kRows.size());
    const std::size_t bytes = adapters_.host_tier_bytes(adapters, kBudgetRank);
    with.host_tier_gb = static_cast<double>(bytes) / 1e9;
    with.options.max_device_adapters = std::max(with.options.max_device_adapters, adapters + 2);
    const ModelSpec& c = target_.spec;
    with.max_model_len = std::min<std::int64_t>(kContext, c.max_position_embeddings);
    if (with.pool_gb == 0) {
      const auto context = static_cast<double>(4 * with.max_model_len * c.all_keys()) *
                           static_cast<double>(size_of(target_.dtype));
      with.pool_gb = 2 * (static_cast<double>(bytes) + context) / 1e9;
    }
    return with;
  }

  Status measure(const std::filesystem::path& path, std::size_t workers) {
    const EngineSettings with = settings_with(path, workers);
    TANDEM_ASSIGN(const auto engine, ColdEngine::start(with, adapters_));
    const auto up =
        static_cast<std::size_t>(engine->wait_for_workers(static_cast<std::int32_t>(workers)));
    if (up != workers) {
      return error(StatusCode::unavailable, "{} of {} CPU workers are at work", up, workers);
    }
    const TimePoint start = clock_.now();
    TANDEM_TRY(engine->warm_up(kBudgetRank));
    std::map<std::int32_t, TokenSamples> samples;  // by rows
    const int rounds = target_.quick ? kQuickRounds : kRequestRounds;
    for (int round = 0; round < rounds; ++round) {
      TANDEM_ASSIGN(const auto names,
                    engine->add(static_cast<std::int32_t>(kRows.size()), kBudgetRank));
      for (std::size_t i = 0; i < kRows.size(); ++i) {
        if (kRows[i] + kOutput > with.max_model_len) continue;
        if (target_.quick && seconds_between(start, clock_.now()) > kQuickSeconds) break;
        const std::vector<std::string> one = {names[i]};
        TANDEM_ASSIGN(const double cold, first_token(*engine, one, kRows[i]));
        TANDEM_TRY(engine->wait_for_loads(one));  // so that the next one has the link for itself
        TANDEM_ASSIGN(const double resident, first_token(*engine, one, kRows[i]));
        if (round == 0 && !target_.quick) continue;
        samples[kRows[i]].cold.push_back(cold);
        samples[kRows[i]].resident.push_back(resident);
      }
      TANDEM_TRY(engine->clear());
    }
    for (const auto& [rows, of] : samples) {
      tokens_.push_back({static_cast<std::int32_t>(workers), kBudgetRank, rows, 0,
                         middle_of(of.cold), middle_of(of.resident)});
    }
    return {};
  }

  Result<double> first_token(ColdEngine& engine, const std::vector<std::string>& adapter,
                             std::int32_t rows) {
    TANDEM_ASSIGN(const AnsweredTrace answered,
                  engine.run(burst_trace(adapter, rows, kOutput), seed_++));
    return answered.requests.front().ttft_s;
  }

  // Runs after all measurements, because it needs the time that requests take beyond their steps.
  void predict() {
    ProfileTable table = first_token_table();
    for (FirstToken& token : tokens_) {
      PlanQuestion question;
      question.tokens = token.rows;
      question.rank = token.rank;
      question.cores = token.workers;
      token.predicted_s =
          first_token_s(profile_, question) + request_s(profile_, tokens_, token.rows);
      add_first_token(token, table);
    }
    profile_.tables.push_back(std::move(table));
  }

  const EngineSettings& engine_;
  const ProfileTarget& target_;
  Profile& profile_;
  const SteadyClock clock_{};
  ColdAdapters adapters_;
  std::uint64_t seed_ = 1;
  std::vector<FirstToken> tokens_;
};

}  // namespace

Status measure_first_tokens(const EngineSettings& engine, const ProfileTarget& target,
                            Profile& profile) {
  if (target.worker_cpus.empty()) {
    return error(StatusCode::not_found, "there are no CPU workers");
  }
  return FirstTokens(engine, target, profile).go();
}

}  // namespace tandem
