#include "tools/bench/coldstart/cold_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace tandem {
namespace {

using Pick = double (*)(const AnsweredRequest&);

struct Figure {
  const char* name;
  Pick seconds;
};
constexpr Figure kFigures[] = {
    {"TTFT", [](const AnsweredRequest& r) { return r.ttft_s; }},
    {"TPOT", [](const AnsweredRequest& r) { return r.tpot_s; }},
    {"latency", [](const AnsweredRequest& r) { return r.total_s; }},
};

std::vector<double> milliseconds(const std::vector<AnsweredRequest>& requests, Pick pick) {
  std::vector<double> values;
  values.reserve(requests.size());
  for (const AnsweredRequest& request : requests) values.push_back(pick(request) * 1e3);
  return values;
}

double mean(const std::vector<double>& values) {
  return Samples{"", "", values}.mean();
}

class Reporter {
 public:
  Reporter(const ColdRuns& runs, const ColdStartOptions& options, double tolerance,
           BenchReport& report)
      : runs_(runs), options_(options), tolerance_(tolerance), report_(report) {}

  void all() {
    for (const ColdLink link : {ColdLink::native, ColdLink::slow}) {
      show_poisson(link);
      show_bursts(link);
    }
    bar_c1();
    bar_c2();
    bar_c3();
    bar_c4();
    bar_c5();
    bar_c8();
  }

 private:
  std::string link_name(ColdLink link) const {
    return link == ColdLink::native ? "native link"
                                    : fmt::format("{:g} GB/s link", options_.slow_link_gbps);
  }

  // Null: it did not run. A cached run is valid for both links.
  const ColdRun* find(ColdLink link, AdapterMode mode) const {
    const auto run = runs_.find({keeps_all(mode) ? ColdLink::native : link, mode});
    return run == runs_.end() ? nullptr : &run->second;
  }

  // Milliseconds; empty: it did not run.
  std::optional<double> poisson_mean(ColdLink link, AdapterMode mode, Pick pick) const {
    const ColdRun* run = find(link, mode);
    if (run == nullptr || run->poisson.empty()) return std::nullopt;
    return mean(milliseconds(run->poisson, pick));
  }
  std::optional<double> burst_ttft(ColdLink link, AdapterMode mode) const {
    const ColdRun* run = find(link, mode);
    if (run == nullptr || run->bursts.empty()) return std::nullopt;
    return mean(milliseconds(run->bursts, kFigures[0].seconds));
  }

  void show_poisson(ColdLink link) {
    ReportTable table;
    table.title =
        fmt::format("Poisson, {:g} a second, each with a new rank-{} qkv adapter; {}; milliseconds",
                    options_.rate, options_.rank, link_name(link));
    table.head = {"mode",      "TTFT mean",  "TTFT p50",     "TTFT p99",    "TPOT mean",
                  "TPOT p50",  "TPOT p99",   "latency mean", "latency p50", "latency p99",
                  "requests",  "cold",       "workers",      "CPU layers",  "GPU layers",
                  "timed out", "cold steps", "planned",      "actual",      "gap %"};
    std::array<std::vector<PlotSeries>, 3> cdfs;
    std::vector<PlotSeries> over_time;
    bool ran = false;
    for (const AdapterMode mode : options_.modes) {
      const ColdRun* run = find(link, mode);
      if (run == nullptr || run->poisson.empty()) continue;
      ran = ran || link == ColdLink::native || !keeps_all(mode);
      std::vector<nlohmann::json>& row = table.rows.emplace_back();
      row.emplace_back(to_string(mode));
      for (std::size_t i = 0; i < cdfs.size(); ++i) {
        Samples samples{
            fmt::format("{}, {}, {}", kFigures[i].name, to_string(mode), link_name(link)), "ms",
            milliseconds(run->poisson, kFigures[i].seconds)};
        row.emplace_back(samples.mean());
        row.emplace_back(samples.median());
        row.emplace_back(samples.percentile(0.99));
        cdfs[i].push_back(cdf_series(std::string(to_string(mode)), samples.values));
      }
      PlotSeries& dots = over_time.emplace_back();
      dots.name = to_string(mode);
      dots.mark = PlotSeries::Mark::dots;
      std::int64_t cold = 0;
      for (const AnsweredRequest& request : run->poisson) {
        dots.points.emplace_back(request.at_s, request.ttft_s * 1e3);
        cold += request.tier != "device" ? 1 : 0;
      }
      row.emplace_back(run->poisson.size());
      row.emplace_back(cold);
      const ColdCounts& counts = run->counts;
      row.emplace_back(counts.workers);
      row.emplace_back(counts.cpu_layers);
      row.emplace_back(counts.gpu_layers);
      row.emplace_back(counts.timed_out);
      const double steps = std::max<double>(1, static_cast<double>(counts.cold_steps));
      row.emplace_back(counts.cold_steps);
      row.emplace_back(counts.planned_s / steps * 1e3);
      row.emplace_back(counts.actual_s / steps * 1e3);
      row.emplace_back(counts.step_s > 0 ? counts.gap_s / counts.step_s * 100 : 0.0);
      if (hands_over(mode) && counts.workers == 0) {
        report_.fact(fmt::format("{}, {}", to_string(mode), link_name(link)),
                     "there are no CPU workers: it does what pipelined does");
      }
    }
    if (!ran) return;
    report_.add(std::move(table));
    for (std::size_t i = 0; i < cdfs.size(); ++i) {
      report_.add(cdf_plot(fmt::format("{}, {}", kFigures[i].name, link_name(link)),
                           fmt::format("{}, ms", kFigures[i].name), std::move(cdfs[i])));
    }
    Plot plot;
    plot.title = fmt::format("TTFT by arrival, {}", link_name(link));
    plot.x_label = "arrival, s";
    plot.y_label = "TTFT, ms";
    plot.log_y = true;
    plot.series = std::move(over_time);
    report_.add(std::move(plot));
  }

  void show_bursts(ColdLink link) {
    std::vector<PlotSeries> cdfs;
    for (const AdapterMode mode : options_.modes) {
      const ColdRun* run = find(link, mode);
      if (run == nullptr || run->bursts.empty()) continue;
      const Samples samples{
          fmt::format("TTFT, 8 cold at once, {}, {}", to_string(mode), link_name(link)), "ms",
          milliseconds(run->bursts, kFigures[0].seconds)};
      if (link == ColdLink::native || !keeps_all(mode)) report_.add(samples);
      cdfs.push_back(cdf_series(std::string(to_string(mode)), samples.values));
    }
    if (cdfs.empty()) return;
    report_.add(cdf_plot(fmt::format("TTFT of 8 cold adapters at once, {}", link_name(link)),
                         "TTFT, ms", std::move(cdfs)));
  }

  void bar_c1() {
    if (!options_.only.any("C1")) return;
    constexpr double kBars[] = {3, 2, 2};
    for (std::size_t i = 0; i < std::size(kFigures); ++i) {
      const auto cached = poisson_mean(ColdLink::native, AdapterMode::cached, kFigures[i].seconds);
      const auto planned =
          poisson_mean(ColdLink::native, AdapterMode::planned, kFigures[i].seconds);
      if (!cached || !planned) continue;
      report_.add({"C1", fmt::format("mean {} of planned over cached", kFigures[i].name),
                   (*planned / *cached - 1) * 100, "%", Must::be_at_most, kBars[i]});
    }
  }

  void bar_c2() {
    if (!options_.only.any("C2")) return;
    const auto ttft = [&](AdapterMode mode) {
      return poisson_mean(ColdLink::slow, mode, kFigures[0].seconds);
    };
    const auto cached = ttft(AdapterMode::cached);
    const auto planned = ttft(AdapterMode::planned);
    if (!cached || !planned) return;
    for (const auto& [mode, bar] :
         {std::pair(AdapterMode::pipelined, 0.25), std::pair(AdapterMode::on_demand, 0.15)}) {
      const auto other = ttft(mode);
      if (!other) continue;
      report_.add(
          {"C2",
           fmt::format("TTFT overhead over cached, {}: planned's {:.2f} ms over {}'s {:.2f}",
                       link_name(ColdLink::slow), *planned - *cached, to_string(mode),
                       *other - *cached),
           share(*planned - *cached, *other - *cached), "", Must::be_at_most, bar});
    }
  }

  // The ratio of two overheads. If `whole` is zero, only a `part` of zero passes the bar.
  static double share(double part, double whole) {
    if (part <= 0) return 0;
    return whole > 0 ? part / whole : std::numeric_limits<double>::max();
  }

  void bar_c3() {
    if (!options_.only.any("C3")) return;
    for (const ColdLink link : {ColdLink::native, ColdLink::slow}) {
      const auto planned = burst_ttft(link, AdapterMode::planned);
      std::optional<double> best;
      std::string name;
      for (const AdapterMode mode : options_.modes) {
        const auto ttft = burst_ttft(link, mode);
        if (keeps_all(mode) || mode == AdapterMode::planned || !ttft || (best && *ttft >= *best))
          continue;
        best = ttft;
        name = to_string(mode);
      }
      if (!planned || !best) continue;
      report_.add({"C3",
                   fmt::format("8 cold at once, {}: mean TTFT of planned over {}'s, the best",
                               link_name(link), name),
                   *planned / *best, "", Must::be_at_most, 1.02});
    }
  }

  void bar_c4() {
    const ColdRun* run = find(ColdLink::native, AdapterMode::planned);
    if (run == nullptr || run->others_cold.empty()) return;
    Samples cold{"TPOT of others, with cold starts", "ms", run->others_cold};
    Samples warm{"TPOT of others, without", "ms", run->others_warm};
    for (Samples* samples : {&cold, &warm}) {
      for (double& value : samples->values) value *= 1e3;
      report_.add(*samples);
    }
    report_.add(
        {"C4",
         fmt::format("others' mean TPOT, cold starts at {:g} a second over none", options_.rate),
         (cold.mean() / warm.mean() - 1) * 100, "%", Must::be_at_most, 2});
  }

  void bar_c5() {
    if (!options_.only.any("C5")) return;
    std::optional<double> cached;
    std::optional<double> planned;
    for (const AdapterMode mode : options_.modes) {
      const ColdRun* run = find(ColdLink::native, mode);
      if (run == nullptr || run->from_disk.empty()) continue;
      Samples samples{fmt::format("TTFT, adapter on disk, {}", to_string(mode)), "ms",
                      run->from_disk};
      for (double& value : samples.values) value *= 1e3;
      report_.add(samples);
      if (keeps_all(mode)) cached = samples.mean();
      if (mode == AdapterMode::planned) planned = samples.mean();
    }
    if (!cached || !planned) return;
    report_.add({"C5", "adapter on disk, page cache warm: mean TTFT of planned beyond cached",
                 *planned - *cached, "ms", Must::be_at_most, 5});
  }

  void bar_c8() {
    const ColdRun* cached = find(ColdLink::native, AdapterMode::cached);
    if (!options_.only.any("C8") || cached == nullptr || cached->exact.empty()) return;
    Agreement all;
    std::int32_t compared = 0;
    for (const auto& [key, run] : runs_) {
      if (keeps_all(key.second) || run.exact.empty()) continue;
      const Agreement agreement = compare_answers(cached->exact, run.exact, tolerance_);
      report_.fact(
          fmt::format("answers as cached's: {}, {}", to_string(key.second), link_name(key.first)),
          fmt::format("{} tokens, {} others, {} near-ties, log-probabilities within {:.1e}",
                      agreement.tokens, agreement.wrong_tokens, agreement.near_ties,
                      agreement.max_difference));
      all.add(agreement);
      ++compared;
    }
    if (compared == 0) return;
    report_.add({"C8", fmt::format("tokens other than cached's, of {} in all modes", all.tokens),
                 static_cast<double>(all.wrong_tokens), "", Must::be_at_most, 0});
    report_.add({"C8", "largest difference of a log-probability from cached's", all.max_difference,
                 "", Must::be_at_most, tolerance_});
  }

  const ColdRuns& runs_;
  const ColdStartOptions& options_;
  const double tolerance_;
  BenchReport& report_;
};

}  // namespace

void report_cold_starts(const ColdRuns& runs, const ColdStartOptions& options, double tolerance,
                        BenchReport& report) {
  Reporter(runs, options, tolerance, report).all();
}

}  // namespace tandem
