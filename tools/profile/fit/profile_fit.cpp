#include "tools/profile/fit/profile_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "scheduler/planning/costs/least_squares.h"
#include "tools/profile/fit/robust_fit.h"
#include "tools/profile/fit/worker_fit.h"

namespace tandem {
namespace {

using Rows = std::vector<std::vector<double>>;

// Physical limits. A value outside them was disturbed during the measurement.
struct Possible {
  std::string_view key;
  double low, high;
  std::string_view because;
};
constexpr Possible kPossible[] = {
    // Two generations beyond NVLink-C2C (450 GB/s), the fastest link between a CPU and its GPU.
    {"link_bytes_per_s", 1e6, 1e12, "no link is faster than 1 TB/s"},
    // Enqueuing a copy takes at least a few cache misses; a millisecond is the time to wake a
    // thread, which happens only for the first copy of a row.
    {"copy_s", 1e-8, 1e-3, "a copy in a row costs from 10 ns to 1 ms beside its bytes"},
    // Doorbell and answer each move a cache line between cores, about 40 ns; a millisecond is the
    // time to wake a thread, but no thread sleeps within a step.
    {"trip_s", 8e-8, 1e-3, "two cache lines cross in 80 ns at least, and nobody sleeps for 1 ms"},
    // x and y are copied by kernels or through caches: from 100 MB/s to 1 TB/s.
    {"row_byte_s", 1e-12, 1e-8, "rows are copied at 100 MB/s to 1 TB/s"},
};

// Limits of a useful fit. R2 alone is not meaningful if all cases take about the same time.
constexpr double kFairFit = 0.5;
constexpr double kFarOff = 0.2;  // for more than a quarter of the cases

class Fitter {
 public:
  explicit Fitter(Profile& profile) : profile_(profile) {}

  Status run() {
    profile_.fits.clear();
    profile_.figures.clear();
    TANDEM_TRY(fit_link());
    TANDEM_TRY(fit_steps());
    TANDEM_TRY(fit_lora());
    TANDEM_TRY(fit_workers());
    TANDEM_TRY(fit_trip());
    return {};
  }
  std::vector<std::string> notes;

 private:
  // Returns the table, or null after adding a note.
  const ProfileTable* have(std::string_view name, std::string_view what, std::size_t rows = 2) {
    const ProfileTable* table = profile_.table(name);
    if (table != nullptr && table->rows.size() >= rows) return table;
    notes.push_back(fmt::format("{} was not measured: the built-in figure stays", what));
    return nullptr;
  }
  // Adds the fit; returns why it describes the samples poorly, or an empty text.
  std::string keep(std::string name, std::string formula, const LinearFit& fit,
                   const std::vector<double>& seconds, const std::vector<double>& predicted) {
    profile_.fits.push_back({std::move(name), std::move(formula), fit.coefficients, fit.r2});
    std::size_t far_off = 0;
    for (std::size_t i = 0; i < seconds.size(); ++i) {
      far_off += std::abs(1 - predicted[i] / seconds[i]) > kFarOff ? 1 : 0;
    }
    if (fit.r2 >= kFairFit || 4 * far_off <= seconds.size()) return {};
    return fmt::format("the model '{}' does not describe what was measured (R2 {:.2f})",
                       profile_.fits.back().formula, fit.r2);
  }
  // Sets the cost, limited to the possible range; `doubt`: why it is not reliable, or empty.
  void measured(std::string_view key, double value, std::string doubt = {}) {
    for (const Possible& possible : kPossible) {
      if (possible.key != key || (value >= possible.low && value <= possible.high)) continue;
      if (doubt.empty()) {
        doubt = fmt::format("{:.3g} was measured, and {}", value, possible.because);
      }
      value = std::clamp(value, possible.low, possible.high);
    }
    for (const CostField& field : cost_fields()) {
      if (field.key != key) continue;
      // A profile with a value outside the field's range could not be read back.
      value = std::clamp(value, field.low, field.high);
      profile_.costs.*field.member = value;
    }
    profile_.figures.push_back({std::string(key), value, 0, doubt.empty(), std::move(doubt)});
  }
  // seconds = a + b x
  Result<std::pair<LinearFit, std::string>> line(std::string name, std::string formula,
                                                 const std::vector<double>& x,
                                                 const std::vector<double>& seconds) {
    Rows rows;
    for (const double value : x) rows.push_back({1, value});
    TANDEM_ASSIGN(LinearFit fit, fit_linear_robustly(rows, seconds));
    std::vector<double> predicted;
    predicted.reserve(x.size());
    for (const double value : x) {
      predicted.push_back(fit.coefficients[0] + fit.coefficients[1] * value);
    }
    std::string doubt = keep(std::move(name), std::move(formula), fit, seconds, predicted);
    return std::pair(std::move(fit), std::move(doubt));
  }

  Status fit_link() {
    const ProfileTable* table = have("link", "the link");
    if (table == nullptr) return {};
    TANDEM_ASSIGN(const auto found, line("link", "seconds = a + b bytes", table->column("bytes"),
                                         table->column("seconds")));
    const auto& [fit, doubt] = found;
    if (fit.coefficients[1] <= 0) return invalid("link: larger copies take no longer");
    measured("copy_s", fit.coefficients[0], doubt);
    measured("link_bytes_per_s", 1 / fit.coefficients[1], doubt);
    return {};
  }

  Status fit_steps() {
    if (const ProfileTable* table = have("prefill", "a layer's time")) {
      const std::vector<double> tokens = table->column("tokens");
      std::vector<double> seconds = table->column("seconds");
      TANDEM_TRY(line("prefill", "seconds = a + b tokens", tokens, seconds).status());
      for (double& value : seconds) value /= static_cast<double>(profile_.model.num_layers);
      TANDEM_ASSIGN(const LinearFit layer, fit_floor_and_line_robustly(tokens, seconds));
      std::vector<double> predicted;
      predicted.reserve(tokens.size());
      for (const double count : tokens) {
        predicted.push_back(std::max(layer.coefficients[0], layer.coefficients[1] * count));
      }
      const std::string doubt =
          keep("layer", "seconds = max(a, b rows)", layer, seconds, predicted);
      measured("layer_s", layer.coefficients[0], doubt);
      measured("layer_row_s", layer.coefficients[1], doubt);
    }
    if (const ProfileTable* table = have("decode", "a decode step")) {
      TANDEM_TRY(
          line("decode", "seconds = a + b batch", table->column("batch"), table->column("seconds"))
              .status());
    }
    if (const ProfileTable* table = have("gemm", "the layer's products", 1)) {
      const std::vector<double> seconds = table->column("seconds");
      const double least = *std::min_element(seconds.begin(), seconds.end());
      measured("overlap", std::clamp(least / 4 / profile_.costs.layer_s, 0.0, 0.25));
    }
    return {};
  }

  // Finds which of the papers' two models fits our operation: padded to the largest rank, or not.
  Status fit_lora() {
    const ProfileTable* table = have("lora", "the LoRA operation");
    if (table == nullptr) return {};
    const std::vector<double> batch = table->column("batch");
    const std::vector<double> largest = table->column("max_rank");
    const std::vector<double> seconds = table->column("seconds");
    std::vector<double> padded;
    for (std::size_t i = 0; i < batch.size(); ++i) padded.push_back(batch[i] * largest[i]);
    TANDEM_TRY(line("lora (BGMV)", "seconds = a + b batch x max rank", padded, seconds).status());
    return line("lora (MBGMV)", "seconds = a + b sum of ranks", table->column("sum_ranks"), seconds)
        .status();
  }

  Status fit_workers() {
    const ProfileTable* memory = have("memory", "memory bandwidth", 1);
    double one_core = profile_.costs.worker_bytes_per_s;
    double all_cores = profile_.costs.workers_bytes_per_s;
    if (memory != nullptr) {
      const std::vector<double> cores = memory->column("cores");
      const std::vector<double> speed = memory->column("bytes_per_s");
      const auto fewest =
          static_cast<std::size_t>(std::min_element(cores.begin(), cores.end()) - cores.begin());
      one_core = speed[fewest] / cores[fewest];
      all_cores = *std::max_element(speed.begin(), speed.end());
    }
    const ProfileTable* table = have("worker", "a worker's time");
    if (table == nullptr) return {};
    const std::vector<Job> jobs = better_splits(*table);
    if (jobs.size() < 4) {
      notes.emplace_back("too few timings of workers: the built-in figures stay");
      return {};
    }
    std::vector<WorkerSample> samples;
    for (const Job& job : jobs) {
      WorkerSample& sample = samples.emplace_back();
      sample.groups = job.groups;
      sample.stream_s = job.bytes / std::min(one_core * job.workers, all_cores);
      sample.gap_s = job.gap_s;
      sample.flops = job.flops / job.workers;
      sample.seconds = job.least();
    }
    const WorkerFigures figures = fit_worker(samples);
    std::vector<double> seconds;
    std::vector<double> predicted;
    double gap_s = 0;
    for (const WorkerSample& sample : samples) {
      seconds.push_back(sample.seconds);
      predicted.push_back(figures.seconds(sample));
      gap_s = std::max(gap_s, sample.gap_s);
    }
    LinearFit fit;
    fit.coefficients = {figures.job_s, figures.slowness, figures.ahead, figures.flop_s};
    fit.r2 = r_squared(seconds, predicted);
    const std::string doubt =
        keep("worker", "s = a groups + max(0, b stream - c gap) + d FLOPs / cores", fit, seconds,
             predicted);
    measured("worker_job_s", figures.job_s, doubt);
    measured("worker_bytes_per_s", one_core / figures.slowness, doubt);
    measured("workers_bytes_per_s", all_cores / figures.slowness, doubt);
    measured("prepare", std::min(1.0, figures.ahead * gap_s / profile_.costs.layer_s), doubt);
    measured("worker_flops", 1 / figures.flop_s, doubt);
    choose_split(jobs);
    return {};
  }

  struct Job {
    double workers = 1, rank = 0, rows = 0, groups = 1, gap_s = 0;
    double bytes = 0, flops = 0;
    std::array<double, 2> seconds = {std::numeric_limits<double>::infinity(),
                                     std::numeric_limits<double>::infinity()};  // [by_tokens]
    double least() const { return std::min(seconds[0], seconds[1]); }
  };

  static std::vector<Job> better_splits(const ProfileTable& table) {
    const std::vector<double> by_tokens = table.column("by_tokens");
    const std::vector<double> seconds = table.column("seconds");
    std::map<std::tuple<double, double, double, double, double>, Job> jobs;
    const std::vector<double> workers = table.column("workers");
    const std::vector<double> ranks = table.column("rank");
    const std::vector<double> rows = table.column("rows");
    const std::vector<double> groups = table.column("groups");
    const std::vector<double> gaps = table.column("gap_s");
    const std::vector<double> bytes = table.column("bytes");
    const std::vector<double> flops = table.column("flops");
    for (std::size_t i = 0; i < workers.size(); ++i) {
      const double gap_s = gaps.empty() ? 0 : gaps[i];
      Job& job = jobs[{workers[i], ranks[i], rows[i], groups[i], gap_s}];
      const std::array<double, 2> before = job.seconds;
      job = {workers[i], ranks[i], rows[i], groups[i], gap_s, bytes[i], flops[i], before};
      job.seconds[by_tokens[i] != 0] = seconds[i];
    }
    std::vector<Job> all;
    all.reserve(jobs.size());
    for (auto& [key, job] : jobs) all.push_back(job);
    return all;
  }

  // Sets tokens_per_core: the most rows per core for which splitting a job by columns is hardly
  // slower than splitting it by tokens.
  void choose_split(const std::vector<Job>& jobs) {
    constexpr double kHardly = 1.05;
    double most_workers = 0;
    for (const Job& job : jobs) most_workers = std::max(most_workers, job.workers);
    if (most_workers < 2) return;                     // one worker cannot share rows
    std::map<double, std::array<double, 2>> by_rows;  // sums over the ranks
    for (const Job& job : jobs) {
      if (job.workers != most_workers || job.groups != 1) continue;
      for (std::size_t split = 0; split < 2; ++split) {
        by_rows[job.rows][split] += job.seconds[split];
      }
    }
    double last_by_columns = 0;
    for (const auto& [count, sums] : by_rows) {
      if (sums[0] > kHardly * sums[1]) break;
      last_by_columns = count;
    }
    profile_.costs.tokens_per_core =
        std::max(1, static_cast<std::int32_t>(last_by_columns / most_workers));
    profile_.figures.push_back({std::string(kTokensPerCore),
                                static_cast<double>(profile_.costs.tokens_per_core), 0, true, ""});
  }

  Status fit_trip() {
    const ProfileTable* table = have("trip", "the round trip");
    if (table == nullptr) return {};
    TANDEM_ASSIGN(const auto found, line("trip", "seconds = a + b bytes", table->column("bytes"),
                                         table->column("seconds")));
    const auto& [fit, doubt] = found;
    measured("trip_s", fit.coefficients[0], doubt);
    measured("row_byte_s", fit.coefficients[1], doubt);
    // Only the device takes part in an offer, so it takes no longer than a trip.
    measured("offer_s", std::min(CostModel{}.offer_s, profile_.costs.trip_s), doubt);
    return {};
  }

  Profile& profile_;
};

}  // namespace

Result<std::vector<std::string>> fit_profile(Profile& profile) {
  profile.costs = CostModel{};
  profile.costs.element_bytes = static_cast<std::int32_t>(size_of(profile.model.dtype));
  Fitter fitter(profile);
  TANDEM_TRY(fitter.run());
  return std::move(fitter.notes);
}

std::string fit_text(const ProfileFit& fit) {
  std::string text = fit.formula;
  for (std::size_t i = 0; i < fit.coefficients.size(); ++i) {
    text += fmt::format("{}{} = {:.3g}", i == 0 ? ": " : ", ",
                        std::string(1, static_cast<char>('a' + i)), fit.coefficients[i]);
  }
  return text;
}

}  // namespace tandem
