#include "tools/profile/profile_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "tools/profile/fit/cost_text.h"
#include "tools/profile/fit/profile_fit.h"
#include "tools/profile/predict/first_tokens_view.h"
#include "tools/profile/predict/profile_map.h"

namespace tandem {
namespace {

constexpr double kGoodFit = 0.9;  // R2

// "NVIDIA H200", or "2 x NVIDIA H200".
std::string device_text(const Profile& profile) {
  const std::string& device = profile.machine.device;
  return profile.model.devices == 1 ? device
                                    : fmt::format("{} x {}", profile.model.devices, device);
}

// "16 hardware threads, of which a quota leaves the CPU time of 1.5"
std::string threads_text(const ProfileMachine& machine) {
  return fmt::format(
      "{} hardware threads{}", machine.cores,
      machine.quota_cpus > 0
          ? fmt::format(", of which a quota leaves the CPU time of {:.4g}", machine.quota_cpus)
          : "");
}

std::string heading(const Profile& profile) {
  return fmt::format(
      "{} ({}) on {}, {} ({}), {} CPU workers\n"
      "measured {} in {:.0f} s, commit {}\n",
      profile.model.name, to_string(profile.model.dtype), device_text(profile), profile.machine.cpu,
      threads_text(profile.machine), profile.workers, profile.date, profile.seconds,
      profile.commit);
}

std::string budget_title() {
  return "rows of a cold adapter (rank 64 on q, k, v) whose layer the workers answer before the "
         "link brings it";
}

std::string map_title() {
  return "which source wins, and the prompt's step over the one with all adapters resident:\n"
         "waiting for the weights > as planned; q, k, v adapters, that many tokens each";
}

PlotSeries dots(std::string name, const std::vector<double>& x, const std::vector<double>& y,
                double scale) {
  PlotSeries series{std::move(name), {}, PlotSeries::Mark::dots};
  for (std::size_t i = 0; i < x.size(); ++i) series.points.emplace_back(x[i], y[i] * scale);
  return series;
}

// Samples y = f(x) between the smallest and the largest of `x`, on a fine logarithmic grid.
template <typename F>
PlotSeries curve(std::string name, const std::vector<double>& x, double scale, F&& f) {
  PlotSeries series{std::move(name), {}, PlotSeries::Mark::line};
  const auto [low, high] = std::minmax_element(x.begin(), x.end());
  constexpr int kSteps = 48;
  for (int i = 0; i <= kSteps; ++i) {
    const double at = *low * std::pow(*high / *low, static_cast<double>(i) / kSteps);
    series.points.emplace_back(at, f(at) * scale);
  }
  return series;
}

class Page {
 public:
  Page(const Profile& profile, std::string command)
      : profile_(profile),
        page_("tandem profile", {std::move(command), profile.commit,
                                 fmt::format("{}, {}; {}", profile.machine.cpu,
                                             threads_text(profile.machine), device_text(profile)),
                                 profile.date}) {}

  HtmlPage build() {
    summary();
    add_first_tokens(profile_, page_);
    std::vector<Plot> plots;
    add_line_plot(plots, "link", "bytes", "Copies to the device", "bytes of a copy", "link", true);
    add_line_plot(plots, "prefill", "tokens", "Prefill step", "tokens", "prefill", false);
    add_line_plot(plots, "decode", "batch", "Decode step", "sequences", "decode", false);
    add_lora_plot(plots);
    add_memory_plot(plots);
    add_worker_plots(plots);
    add_line_plot(plots, "trip", "bytes", "Round trip of the handoff", "bytes of x and y", "trip",
                  true);
    if (!plots.empty()) {
      page_.section("Measured and fitted");
      page_.plots(plots);
    }
    costs();
    fits();
    map();
    samples();
    page_.condition("model", model_text());
    page_.condition("CPU workers", std::to_string(profile_.workers));
    page_.condition("measured in", fmt::format("{:.0f} s", profile_.seconds));
    return std::move(page_);
  }

 private:
  using Look = HtmlCell::Look;

  std::string model_text() const {
    return fmt::format("{} ({})", profile_.model.name, to_string(profile_.model.dtype));
  }

  void summary() {
    std::vector<HtmlFigure> figures = {
        {"model", profile_.model.name, std::string(to_string(profile_.model.dtype))},
        {"CPU workers", std::to_string(profile_.workers)}};
    for (const CostField& field : cost_fields()) {
      const std::string_view key = field.key;
      if (key != "link_bytes_per_s" && key != "layer_s" && key != "trip_s" &&
          key != "worker_bytes_per_s") {
        continue;
      }
      figures.push_back({label_of(field), cost_text(field, profile_.costs.*field.member)});
    }
    const auto good = std::count_if(profile_.fits.begin(), profile_.fits.end(),
                                    [](const ProfileFit& fit) { return fit.r2 >= kGoodFit; });
    if (!profile_.fits.empty()) {
      figures.push_back({"linear models that fit",
                         fmt::format("{} of {}", good, profile_.fits.size()),
                         fmt::format("R2 of {} or more", kGoodFit)});
    }
    const std::vector<HtmlFigure> first = first_token_figures(profile_);
    figures.insert(figures.begin() + 2, first.begin(), first.end());
    const auto uncertain = std::ranges::count_if(
        profile_.figures, [](const FigureSpread& figure) { return !figure.certain; });
    if (uncertain > 0) {
      figures.push_back({"uncertain figures", std::to_string(uncertain), "see costs", Look::bad});
    }
    page_.summary(figures);
  }

  void costs() {
    HtmlRows rows;
    for (const CostField& field : cost_fields()) {
      rows.push_back({{label_of(field), Look::text},
                      {cost_text(field, profile_.costs.*field.member), Look::figure},
                      trust_of(field.key),
                      {field.key, Look::text}});
    }
    rows.push_back({{"tokens per core: more rows a worker are split by rows", Look::text},
                    {std::to_string(profile_.costs.tokens_per_core), Look::figure},
                    trust_of(kTokensPerCore),
                    {std::string(kTokensPerCore), Look::text}});
    page_.section("Costs");
    page_.table({"cost", "value", "spread", "key"}, rows);
    for (const FigureSpread& figure : profile_.figures) {
      if (!figure.why.empty()) page_.paragraph(fmt::format("{}: {}", figure.name, figure.why));
    }
    if (!profile_.others.empty()) page_.paragraph(fmt::format("Meanwhile {}", profile_.others));
  }

  // The uncertainty of a figure; empty if it was not judged.
  HtmlCell trust_of(std::string_view key) const {
    const FigureSpread* figure = profile_.figure(key);
    if (figure == nullptr) return {"", Look::text};
    return {spread_text(figure), figure->certain ? Look::text : Look::bad};
  }

  void fits() {
    HtmlRows rows;
    for (const ProfileFit& fit : profile_.fits) {
      rows.push_back({{fit.name, Look::text},
                      {fit_text(fit), Look::text},
                      {fmt::format("{:.3f}", fit.r2), Look::figure},
                      {fit.r2 >= kGoodFit ? "fits" : "does not fit",
                       fit.r2 >= kGoodFit ? Look::good : Look::bad}});
    }
    if (rows.empty()) return;  // built-in figures have no fits
    page_.section("Linear models");
    page_.table({"of", "model", "R2", "verdict"}, rows);
  }

  void add_line_plot(std::vector<Plot>& plots, std::string_view table_name,
                     std::string_view x_column, std::string title, std::string x_label,
                     std::string_view fit_name, bool logarithmic) {
    const ProfileTable* table = profile_.table(table_name);
    if (table == nullptr || table->rows.empty()) return;
    const std::vector<double> x = table->column(x_column);
    Plot plot{std::move(title), std::move(x_label), "us", {}, logarithmic, logarithmic, true, ""};
    plot.series.push_back(dots("measured", x, table->column("seconds"), 1e6));
    if (const ProfileFit* fit = profile_.fit(fit_name); fit != nullptr) {
      plot.series.push_back(curve("fitted", x, 1e6, [&](double at) {
        return fit->coefficients[0] + fit->coefficients[1] * at;
      }));
      plot.note = fmt::format("R2 {:.3f}", fit->r2);
    }
    plots.push_back(std::move(plot));
  }

  void add_lora_plot(std::vector<Plot>& plots) {
    const ProfileTable* table = profile_.table("lora");
    if (table == nullptr || table->rows.empty()) return;
    const std::vector<double> batch = table->column("batch");
    const std::vector<double> largest = table->column("max_rank");
    const std::vector<double> sum = table->column("sum_ranks");
    const std::vector<double> seconds = table->column("seconds");
    Plot plot{"The LoRA operation on q, k, v of a layer",
              "sum of ranks",
              "us",
              {},
              true,
              true,
              false,
              ""};
    PlotSeries equal{"equal ranks", {}, PlotSeries::Mark::dots};
    PlotSeries mixed{"mixed ranks", {}, PlotSeries::Mark::dots};
    for (std::size_t i = 0; i < sum.size(); ++i) {
      (sum[i] == batch[i] * largest[i] ? equal : mixed)
          .points.emplace_back(sum[i], seconds[i] * 1e6);
    }
    plot.series = {equal, mixed};
    if (const ProfileFit* fit = profile_.fit("lora (MBGMV)"); fit != nullptr) {
      plot.series.push_back(curve("fitted", sum, 1e6, [&](double at) {
        return fit->coefficients[0] + fit->coefficients[1] * at;
      }));
      plot.note = fmt::format("R2 {:.3f} by the sum of ranks", fit->r2);
      if (const ProfileFit* padded = profile_.fit("lora (BGMV)"); padded != nullptr) {
        plot.note += fmt::format(", {:.3f} by batch x largest rank", padded->r2);
      }
    }
    plots.push_back(std::move(plot));
  }

  void add_memory_plot(std::vector<Plot>& plots) {
    const ProfileTable* table = profile_.table("memory");
    if (table == nullptr || table->rows.size() < 2) return;
    Plot plot{"Host memory, reading", "cores", "GB/s", {}, false, false, true, ""};
    PlotSeries series =
        dots("measured", table->column("cores"), table->column("bytes_per_s"), 1e-9);
    series.mark = PlotSeries::Mark::line;
    plot.series.push_back(std::move(series));
    plots.push_back(std::move(plot));
  }

  // Adds a plot by rows for each number of workers, with a series for each rank and split.
  void add_worker_plots(std::vector<Plot>& plots) {
    const ProfileTable* table = profile_.table("worker");
    if (table == nullptr) return;
    const std::vector<double> workers = table->column("workers");
    const std::vector<double> rank = table->column("rank");
    const std::vector<double> rows = table->column("rows");
    const std::vector<double> by_tokens = table->column("by_tokens");
    const std::vector<double> seconds = table->column("seconds");
    std::map<double, std::map<std::pair<double, double>, PlotSeries>> found;
    const std::vector<double> groups = table->column("groups");
    for (std::size_t i = 0; i < workers.size(); ++i) {
      if (i < groups.size() && groups[i] != 1) continue;
      PlotSeries& series = found[workers[i]][{rank[i], by_tokens[i]}];
      series.name =
          fmt::format("rank {}, by {}", rank[i], by_tokens[i] != 0 ? "tokens" : "columns");
      series.points.emplace_back(rows[i], seconds[i] * 1e6);
    }
    for (auto& [count, all] : found) {
      Plot plot{fmt::format("{} worker{}: one layer's q, k, v", count, count == 1 ? "" : "s"),
                "tokens",
                "us",
                {},
                true,
                true,
                false,
                ""};
      for (auto& [key, series] : all) {
        std::sort(series.points.begin(), series.points.end());
        plot.series.push_back(std::move(series));
      }
      plots.push_back(std::move(plot));
    }
  }

  void map() {
    page_.section("Which source wins where");
    page_.paragraph(
        "Cold adapters on q, k and v that arrive together, and the time of their prompts' step "
        "over that of a step with all adapters resident: waiting for the weights, the CPU alone, "
        "and as "
        "planned. Predicted from the costs above.");
    HtmlRows rows;
    const auto percent = [](double share) { return fmt::format("{:+.0f} %", share * 100); };
    for (const MapCell& cell : plan_map(profile_, profile_.workers, map_links(profile_))) {
      rows.push_back({{fmt::format("{}", cell.question.link), Look::figure},
                      {std::to_string(cell.question.rank), Look::figure},
                      {std::to_string(cell.question.cold), Look::figure},
                      {std::to_string(cell.question.tokens), Look::figure},
                      {percent(cell.waiting), Look::figure},
                      {percent(cell.cpu_alone), Look::figure},
                      {percent(cell.planned), Look::figure},
                      {cell.source, Look::text}});
    }
    page_.sortable_table(
        {"link GB/s", "rank", "cold", "tokens", "wait", "CPU alone", "planned", "wins"}, rows);
  }

  void samples() {
    if (profile_.tables.empty()) return;
    page_.section("Samples");
    for (const ProfileTable& table : profile_.tables) {
      HtmlRows rows;
      for (const std::vector<double>& row : table.rows) {
        std::vector<HtmlCell>& cells = rows.emplace_back();
        for (const double value : row)
          cells.push_back({fmt::format("{:.6g}", value), Look::figure});
      }
      page_.paragraph(table.name);
      page_.sortable_table(table.columns, rows);
    }
  }

  const Profile& profile_;
  HtmlPage page_;
};

}  // namespace

std::string profile_text(const Profile& profile) {
  std::string text = heading(profile) + "\n";
  for (const CostField& field : cost_fields()) {
    text += fmt::format("  {:<54}{:>16} {:>10}\n", label_of(field),
                        cost_text(field, profile.costs.*field.member),
                        spread_text(profile.figure(field.key)));
  }
  text += fmt::format("  {:<54}{:>16}\n", "tokens per core: more rows a worker are split by rows",
                      profile.costs.tokens_per_core);
  text += uncertain_text(profile);
  if (!profile.fits.empty()) {
    text += "\nlinear models                                                              R2\n";
    for (const ProfileFit& fit : profile.fits) {
      text += fmt::format("  {:<14}{:<56}{:>7.3f}\n", fit.name, fit.formula, fit.r2);
    }
  }
  text += fmt::format("\n{}", first_tokens_text(profile));
  const std::vector<double> links = map_links(profile);
  if (profile.workers > 0) {
    text += fmt::format("\n{}\n{}", budget_title(), budget_text(profile, links));
  }
  text +=
      fmt::format("\n{}\n\n{}", map_title(), map_text(plan_map(profile, profile.workers, links)));
  return text;
}

HtmlPage profile_page(const Profile& profile, std::string command) {
  return Page(profile, std::move(command)).build();
}

}  // namespace tandem
