#include "tools/profile/profile_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <tuple>

#include "scheduler/costs/least_squares.h"

namespace tandem {
namespace {

using Rows = std::vector<std::vector<double>>;

class Fitter {
 public:
  explicit Fitter(Profile& profile) : profile_(profile) {}

  Status run() {
    profile_.fits.clear();
    TANDEM_TRY(fit_link());
    TANDEM_TRY(fit_steps());
    TANDEM_TRY(fit_lora());
    TANDEM_TRY(fit_workers());
    TANDEM_TRY(fit_trip());
    return {};
  }
  std::vector<std::string> notes;

 private:
  // The table, or null and a note.
  const ProfileTable* have(std::string_view name, std::string_view what, std::size_t rows = 2) {
    const ProfileTable* table = profile_.table(name);
    if (table != nullptr && table->rows.size() >= rows) return table;
    notes.push_back(fmt::format("{} was not measured: the built-in figure stays", what));
    return nullptr;
  }
  void keep(std::string name, std::string formula, const LinearFit& fit) {
    profile_.fits.push_back({std::move(name), std::move(formula), fit.coefficients, fit.r2});
  }
  // seconds = a + b x
  Result<LinearFit> line(const std::vector<double>& x, const std::vector<double>& seconds) {
    Rows rows;
    for (const double value : x) rows.push_back({1, value});
    return fit_linear(rows, seconds);
  }

  Status fit_link() {
    const ProfileTable* table = have("link", "the link");
    if (table == nullptr) return {};
    TANDEM_ASSIGN(const LinearFit fit, line(table->column("bytes"), table->column("seconds")));
    if (fit.coefficients[1] <= 0) return invalid("link: larger copies take no longer");
    keep("link", "seconds = a + b bytes", fit);
    profile_.costs.copy_s = fit.coefficients[0];
    profile_.costs.link_bytes_per_s = 1 / fit.coefficients[1];
    return {};
  }

  Status fit_steps() {
    if (const ProfileTable* table = have("prefill", "a layer's time")) {
      const std::vector<double> tokens = table->column("tokens");
      std::vector<double> seconds = table->column("seconds");
      TANDEM_ASSIGN(const LinearFit prefill, line(tokens, seconds));
      keep("prefill", "seconds = a + b tokens", prefill);
      for (double& value : seconds) value /= static_cast<double>(profile_.model.num_layers);
      TANDEM_ASSIGN(const LinearFit layer, fit_floor_and_line(tokens, seconds));
      keep("layer", "seconds = max(a, b rows)", layer);
      profile_.costs.layer_s = layer.coefficients[0];
      profile_.costs.layer_row_s = layer.coefficients[1];
    }
    if (const ProfileTable* table = have("decode", "a decode step")) {
      TANDEM_ASSIGN(const LinearFit fit, line(table->column("batch"), table->column("seconds")));
      keep("decode", "seconds = a + b batch", fit);
    }
    if (const ProfileTable* table = have("gemm", "the layer's products", 1)) {
      const std::vector<double> seconds = table->column("seconds");
      const double least = *std::min_element(seconds.begin(), seconds.end());
      profile_.costs.overlap = std::clamp(least / 4 / profile_.costs.layer_s, 0.0, 0.25);
    }
    return {};
  }

  // Which of the papers' two models describes our operation: padded to the largest rank, or not.
  Status fit_lora() {
    const ProfileTable* table = have("lora", "the LoRA operation");
    if (table == nullptr) return {};
    const std::vector<double> batch = table->column("batch");
    const std::vector<double> largest = table->column("max_rank");
    const std::vector<double> seconds = table->column("seconds");
    std::vector<double> padded;
    for (std::size_t i = 0; i < batch.size(); ++i) padded.push_back(batch[i] * largest[i]);
    TANDEM_ASSIGN(const LinearFit bgmv, line(padded, seconds));
    keep("lora (BGMV)", "seconds = a + b batch x max rank", bgmv);
    TANDEM_ASSIGN(const LinearFit mbgmv, line(table->column("sum_ranks"), seconds));
    keep("lora (MBGMV)", "seconds = a + b sum of ranks", mbgmv);
    return {};
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
    // Of each case the better split.
    using Case = std::tuple<double, double, double, double>;  // workers, rank, rows, groups
    struct Best {
      double bytes = 0, flops = 0;
      std::array<double, 2> seconds = {std::numeric_limits<double>::infinity(),
                                       std::numeric_limits<double>::infinity()};  // [by_tokens]
    };
    std::map<Case, Best> cases;
    const std::vector<double> workers = table->column("workers");
    const std::vector<double> ranks = table->column("rank");
    const std::vector<double> rows = table->column("rows");
    const std::vector<double> by_tokens = table->column("by_tokens");
    const std::vector<double> groups = table->column("groups");
    const std::vector<double> bytes = table->column("bytes");
    const std::vector<double> flops = table->column("flops");
    const std::vector<double> seconds = table->column("seconds");
    for (std::size_t i = 0; i < workers.size(); ++i) {
      Best& best = cases[{workers[i], ranks[i], rows[i], groups[i]}];
      best.bytes = bytes[i];
      best.flops = flops[i];
      best.seconds[by_tokens[i] != 0] = seconds[i];
    }
    const std::vector<double> gaps = table->column("gap_s");
    const double gap_s = gaps.empty() ? 0 : gaps.front();
    std::vector<double> y;
    y.reserve(cases.size());
    for (const auto& [key, best] : cases) y.push_back(std::min(best.seconds[0], best.seconds[1]));
    if (y.size() < 4) {
      notes.emplace_back("too few timings of workers: the built-in figures stay");
      return {};
    }
    // Weights stream at the memory's speed over some factor, and in part before the bell: in the
    // gap. Linear for each factor; the best factor is found by trial.
    constexpr double kLeastFactor = 0.3;
    constexpr double kMostFactor = 4;
    LinearFit best_fit;
    double factor = 1;
    double least = std::numeric_limits<double>::infinity();
    for (double tried = kLeastFactor; tried <= kMostFactor; tried *= 1.02) {
      Rows x;
      for (const auto& [key, best] : cases) {
        const double count = std::get<0>(key);
        const double stream = tried * best.bytes / std::min(one_core * count, all_cores);
        x.push_back({std::get<3>(key), std::max(0.0, stream - gap_s), best.flops / count});
      }
      TANDEM_ASSIGN(const LinearFit fit, fit_linear(x, y));
      double left = 0;
      for (std::size_t i = 0; i < y.size(); ++i) {
        const double predicted = fit.coefficients[0] * x[i][0] + fit.coefficients[1] * x[i][1] +
                                 fit.coefficients[2] * x[i][2];
        left += (1 - predicted / y[i]) * (1 - predicted / y[i]);
      }
      if (left >= least) continue;
      least = left;
      factor = tried;
      best_fit = fit;
    }
    keep("worker", "s = a groups + b (stream - gap) + c FLOPs / cores", best_fit);
    profile_.costs.worker_job_s = best_fit.coefficients[0];
    // Weights that cost nothing at all were in caches: that says little of others.
    const double slope = std::max(best_fit.coefficients[1], 0.05);
    profile_.costs.worker_bytes_per_s = one_core / (slope * factor);
    profile_.costs.workers_bytes_per_s = all_cores / (slope * factor);
    profile_.costs.prepare = std::min(1.0, slope * gap_s / profile_.costs.layer_s);
    if (best_fit.coefficients[2] > 0) profile_.costs.worker_flops = 1 / best_fit.coefficients[2];

    // Tokens per core: by columns up to so many rows for each core, as long as that is no slower.
    double most_workers = 0;
    for (const auto& [key, best] : cases) most_workers = std::max(most_workers, std::get<0>(key));
    std::map<double, std::array<double, 2>> by_rows;  // sums over the ranks
    for (const auto& [key, best] : cases) {
      if (std::get<0>(key) != most_workers || std::get<3>(key) != 1) continue;
      for (std::size_t split = 0; split < 2; ++split) {
        by_rows[std::get<2>(key)][split] += best.seconds[split];
      }
    }
    double last_by_columns = 0;
    for (const auto& [count, sums] : by_rows) {
      if (sums[0] > sums[1]) break;
      last_by_columns = count;
    }
    profile_.costs.tokens_per_core =
        std::max(1, static_cast<std::int32_t>(last_by_columns / most_workers));
    return {};
  }

  Status fit_trip() {
    const ProfileTable* table = have("trip", "the round trip");
    if (table == nullptr) return {};
    TANDEM_ASSIGN(const LinearFit fit, line(table->column("bytes"), table->column("seconds")));
    keep("trip", "seconds = a + b bytes", fit);
    profile_.costs.trip_s = fit.coefficients[0];
    profile_.costs.row_byte_s = fit.coefficients[1];
    profile_.costs.offer_s = std::min(profile_.costs.offer_s, profile_.costs.trip_s);
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
  // A machine beyond the ranges would write a profile that nobody reads.
  for (const CostField& field : cost_fields()) {
    double& value = profile.costs.*field.member;
    value = std::clamp(value, field.low, field.high);
  }
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
