// CaraServe's cold starts on one engine.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "tools/bench/papers/caraserve.h"
#include "tools/bench/papers/paper_machines.h"

namespace tandem::papers {
namespace {

struct Mode {
  std::string_view name;
  SimColdStart cold_start;
};
constexpr std::array kModes = {Mode{"Cached", SimColdStart::cached},
                               Mode{"OnDmd", SimColdStart::on_demand},
                               Mode{"CaraServe", SimColdStart::cpu_assist}};

struct Load {
  double rate = 9;
  std::int32_t rank = 64;
  std::int64_t adapters = 0;  // popular as Azure's functions; 0: each request has a new one
};

SimulationOptions options_of(const PapersBench& bench, const SimMachine& machine,
                             const Load& load) {
  constexpr double kDurationS = 900;  // less is noise, and this takes a tenth of a second
  constexpr std::int64_t kNeverTwice = 1'000'000;
  SimulationOptions options = one_engine(bench, machine);
  options.workload.duration_s = kDurationS;
  options.workload.requests_per_s = load.rate;
  options.workload.ranks = {load.rank};
  options.workload.popularity = "uniform";
  options.workload.adapters = load.adapters == 0 ? kNeverTwice : load.adapters;
  if (load.adapters > 0) use_azure(bench, options.workload);
  return options;
}

// Means of the three modes, and what each loses to Cached.
struct Modes {
  std::array<PolicyResult, kModes.size()> results;

  static double over(double mode, double cached) { return (mode / cached - 1) * 100; }
  std::string text(Distribution PolicyResult::*which) const {
    const double cached = (results[0].*which).mean;
    return fmt::format("{:+.0f} / {:+.0f} %", over((results[1].*which).mean, cached),
                       over((results[2].*which).mean, cached));
  }
  // TTFT, time per token and latency, OnDmd / CaraServe.
  std::string all() const {
    return fmt::format("TTFT {}, time per token {}, latency {}", text(&PolicyResult::ttft_ms),
                       text(&PolicyResult::token_ms), text(&PolicyResult::latency_ms));
  }
  // To the first token CaraServe loses at most half of what OnDmd loses, and no more until the end.
  bool assisted() const {
    const auto lost = [&](std::size_t mode, Distribution PolicyResult::*which) {
      return over((results[mode].*which).mean, (results[0].*which).mean);
    };
    return lost(1, &PolicyResult::ttft_ms) > 2 &&
           lost(2, &PolicyResult::ttft_ms) <= lost(1, &PolicyResult::ttft_ms) / 2 &&
           lost(2, &PolicyResult::latency_ms) <= lost(1, &PolicyResult::latency_ms) + 1;
  }
};

Result<Modes> run_modes(const PapersBench& bench, const SimMachine& machine, const Load& load) {
  Modes modes;
  for (std::size_t i = 0; i < kModes.size(); ++i) {
    SimulationOptions options = options_of(bench, machine, load);
    options.cold_start = kModes[i].cold_start;
    TANDEM_ASSIGN(modes.results[i], simulate(bench, options));
  }
  return modes;
}

SimMachine a10() {
  return paper_machine(LoraKernel::bgmv, kLlama7b, kA10);
}

void add_cdfs(Findings& found, const Modes& modes, std::string_view what) {
  for (std::size_t i = 0; i < kModes.size(); ++i) {
    const auto& cdf = modes.results[i].ttft_ms.cdf;
    for (std::size_t at = 0; at < cdf.size(); at += 8) {
      if (cdf[at].second > 0.99) break;
      found.add(fmt::format("{}{}", kModes[i].name, what), cdf[at].first, cdf[at].second);
    }
  }
}

constexpr std::string_view kEach = "a load for each request";
constexpr std::string_view kKept = "popular adapters kept";
constexpr const char* kWhyNot = "CaraServe loses more than half of what OnDmd loses";

Result<Findings> one_load(const PapersBench& bench, const SimMachine& machine, const Load& load) {
  Findings found;
  TANDEM_ASSIGN(const Modes modes, run_modes(bench, machine, load));
  add_cdfs(found, modes, "");
  found.here = "over Cached, OnDmd / CaraServe: " + modes.all();
  found.judge(modes.assisted(), kWhyNot);
  return found;
}

}  // namespace

Result<Findings> caraserve_overhead(const PapersBench& bench) {
  Findings found;
  double cold_share = 0;
  for (const double rate : {3.0, 6.0, 9.0}) {
    for (const auto& [name, adapters] : {std::pair(kEach, 0), std::pair(kKept, 512)}) {
      TANDEM_ASSIGN(const Modes modes,
                    run_modes(bench, a10(), {.rate = rate, .adapters = adapters}));
      const double cached = modes.results[0].latency_ms.mean;
      const double on_demand = modes.results[1].latency_ms.mean;
      found.add(name, rate, (1 - cached / on_demand) * 100);
      cold_share = modes.results[1].cold_share;
    }
  }
  found.here = fmt::format(
      "{:.0f}, {:.0f}, {:.0f} % of the latency at 3, 6, 9 requests/s if every request loads; "
      "{:.0f}, "
      "{:.0f}, {:.0f} % if 3 GiB keep the popular ones, as then {:.0f} % of the requests load",
      found.at(kEach, 3), found.at(kEach, 6), found.at(kEach, 9), found.at(kKept, 3),
      found.at(kKept, 6), found.at(kKept, 9), cold_share * 100);
  found.judge(found.at(kEach, 3) < found.at(kEach, 9) && found.at(kEach, 9) >= 5,
              "loads do not take a growing share");
  if (found.at(kEach, 9) > 30) {
    found.why = "at 9 requests/s with a load each, the simulated engine is past its capacity";
  }
  return found;
}

Result<Findings> caraserve_load_time(const PapersBench&) {
  Findings found;
  const SimMachine machine = a10();
  for (const std::int32_t rank : {8, 16, 32, 64}) {
    found.add("load", rank, machine.cold.load_time_s(machine.bytes_per_rank * rank) * 1e3);
  }
  found.here = fmt::format("{:.1f} to {:.1f} ms from rank 8 to 64 ({:.1f} MB a rank over 10 GB/s)",
                           found.at("load", 8), found.at("load", 64),
                           static_cast<double>(machine.bytes_per_rank) / 1e6);
  found.judge(found.at("load", 64) > 4 * found.at("load", 8), "a load does not grow with the rank");
  return found;
}

Result<Findings> caraserve_synthetic(const PapersBench& bench) {
  return one_load(bench, a10(), {});
}

// At a tenth of a request a second requests run alone, so TTFT is the prefill iteration and the
// time between tokens the decode iteration.
Result<Findings> caraserve_iterations(const PapersBench& bench) {
  Findings found;
  TANDEM_ASSIGN(const Modes modes, run_modes(bench, a10(), {.rate = 0.1}));
  for (std::size_t i = 0; i < kModes.size(); ++i) {
    found.add(kModes[i].name, 0, modes.results[i].ttft_ms.mean);
    found.add(kModes[i].name, 1, modes.results[i].tpot_ms.mean);
  }
  const auto value = [&](std::size_t mode, double x) { return found.at(kModes[mode].name, x); };
  found.here = fmt::format(
      "prefill {:.1f} / {:.1f} / {:.1f} ms, decode {:.1f} / {:.1f} / {:.1f} ms (Cached / OnDmd / "
      "CaraServe)",
      value(0, 0), value(1, 0), value(2, 0), value(0, 1), value(1, 1), value(2, 1));
  found.judge(value(1, 0) > value(2, 0) && value(2, 0) < 1.3 * value(0, 0) &&
                  value(1, 1) < 1.1 * value(0, 1),
              "the prefill of CaraServe is not between the others', or decode differs");
  return found;
}

Result<Findings> caraserve_rank(const PapersBench& bench) {
  return one_load(bench, a10(), {.rank = 32});
}

Result<Findings> caraserve_rate(const PapersBench& bench) {
  return one_load(bench, a10(), {.rate = 6});
}

Result<Findings> caraserve_adapters(const PapersBench& bench) {
  struct Case {
    std::int64_t adapters;
    double rate;
  };
  Findings found;
  bool assisted = true;
  double cold_share = 0;
  std::string text;
  for (const Case& one : {Case{128, 1.5}, Case{256, 3.6}, Case{512, 7.7}}) {
    TANDEM_ASSIGN(const Modes modes,
                  run_modes(bench, a10(), {.rate = one.rate, .adapters = one.adapters}));
    for (std::size_t i = 0; i < kModes.size(); ++i) {
      found.add(kModes[i].name, static_cast<double>(one.adapters), modes.results[i].ttft_ms.mean);
    }
    assisted = assisted && modes.assisted();
    cold_share = std::max(cold_share, modes.results[1].cold_share);
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", one.adapters,
                        modes.text(&PolicyResult::ttft_ms));
  }
  found.here = "TTFT over Cached, OnDmd / CaraServe: " + text;
  found.judge(
      assisted,
      fmt::format("with this skew the popular adapters stay on the device: at most {:.0f} % of "
                  "the requests load one; `tandem bench coldstart` has every request load",
                  cold_share * 100));
  return found;
}

Result<Findings> caraserve_large_models(const PapersBench& bench) {
  Findings found;
  bool assisted = true;
  std::string text;
  for (const auto& [name, machine] :
       {std::pair("13B, 2 A10", paper_machine(LoraKernel::bgmv, kLlama13b, kA10, 2)),
        std::pair("70B, 4 A100", paper_machine(LoraKernel::bgmv, kLlama70b, kA100_80, 4))}) {
    TANDEM_ASSIGN(const Modes modes, run_modes(bench, machine, {.rate = 6}));
    add_cdfs(found, modes, fmt::format(", {}", name));
    assisted = assisted && modes.assisted();
    text += fmt::format("{}{}: TTFT {}, latency {}", text.empty() ? "" : "; ", name,
                        modes.text(&PolicyResult::ttft_ms), modes.text(&PolicyResult::latency_ms));
  }
  found.here = "over Cached, OnDmd / CaraServe: " + text;
  found.judge(assisted, kWhyNot);
  if (assisted) {
    found.why =
        "TTFT has the paper's order; the latency gains less, as the simulated engines are far from "
        "their capacity at 6 requests/s";
  }
  return found;
}

}  // namespace tandem::papers
