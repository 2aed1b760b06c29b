// The text form of a plan: one line for each layer.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "scheduler/planning/coldstart/planner.h"

namespace tandem {
namespace {

std::string ms_text(double seconds) {
  return std::isfinite(seconds) ? fmt::format("{:.3f}", seconds * 1e3) : "never";
}

struct Times {
  std::vector<std::vector<double>> a, b;  // [adapter][layer]
};

// Arrival times of A and B, without the delay that workers' answers cause on the link.
Times arrivals(const CostModel& costs, const PlanRequest& request, const HandoffPlan& plan) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  Times times;
  for (const ColdAdapter& adapter : request.adapters) {
    const std::vector<double> never(adapter.layers.size(), kNever);
    times.a.push_back(adapter.a_arrives.empty() ? never : adapter.a_arrives);
    times.b.push_back(adapter.b_arrives.empty() ? never : adapter.b_arrives);
  }
  double link = std::max(0.0, request.link_busy_for);
  for (const LoadPiece& piece : plan.order) {
    const auto i = static_cast<std::size_t>(piece.adapter);
    const auto l = static_cast<std::size_t>(piece.layer);
    const ColdAdapter& adapter = request.adapters[i];
    const LayerLoad& load = adapter.layers[l];
    if (!adapter.host_arrives.empty()) link = std::max(link, adapter.host_arrives[l]);
    link += costs.load_time((piece.kind == PieceKind::b ? 0 : load.a_bytes) +
                                (piece.kind == PieceKind::a ? 0 : load.b_bytes),
                            load.copies);
    if (piece.kind != PieceKind::b) times.a[i][l] = link;
    if (piece.kind != PieceKind::a) times.b[i][l] = link;
  }
  return times;
}

// Indices of the adapters with this choice, as in "0-3 7"; "-" if there are none.
std::string who(const HandoffPlan& plan, std::size_t layer, LayerChoice choice) {
  std::string text;
  const std::size_t count = plan.choices.size();
  for (std::size_t i = 0; i < count; ++i) {
    if (plan.choices[i][layer] != choice) continue;
    std::size_t last = i;
    while (last + 1 < count && plan.choices[last + 1][layer] == choice) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : " ", i);
    if (last > i) text += fmt::format("-{}", last);
    i = last;
  }
  return text.empty() ? "-" : text;
}

std::string span_text(const std::vector<std::vector<double>>& times, std::size_t layer) {
  double first = std::numeric_limits<double>::infinity();
  double last = -first;
  for (const std::vector<double>& of : times) {
    first = std::min(first, std::max(0.0, of[layer]));
    last = std::max(last, std::max(0.0, of[layer]));
  }
  return first == last ? ms_text(first) : ms_text(first) + " .. " + ms_text(last);
}

}  // namespace

std::string explain(const CostModel& costs, const PlanRequest& request, const HandoffPlan& plan) {
  const std::size_t layers = plan.layer_ends.size();
  if (layers == 0) return "nothing is cold: nothing to plan\n";
  TANDEM_CHECK(plan.choices.size() == request.adapters.size(), "a plan of another request");
  const Times times = arrivals(costs, request, plan);
  std::string text = fmt::format("{:>5}  {:<10} {:<10} {:<10} {:<20} {:<20} {:>9} {:>9} {:>8}\n",
                                 "layer", "GPU waits", "CPU", "CPU for xA", "A there at",
                                 "B there at", "starts", "ends", "over us");
  const double layer_s = costs.layer_time(request.rows);
  double before = std::max(0.0, request.starts_in);
  for (std::size_t l = 0; l < layers; ++l) {
    const double end = plan.layer_ends[l];
    text +=
        fmt::format("{:>5}  {:<10} {:<10} {:<10} {:<20} {:<20} {:>9} {:>9} {:>8.1f}\n", l,
                    who(plan, l, LayerChoice::wait), who(plan, l, LayerChoice::cpu),
                    who(plan, l, LayerChoice::cpu_xa), span_text(times.a, l), span_text(times.b, l),
                    ms_text(before), ms_text(end), std::max(0.0, end - before - layer_s) * 1e6);
    before = end;
  }
  const double start = std::max(0.0, request.starts_in);
  const double resident = plan.resident_ends - start;
  text += fmt::format("step: {} ms, {} with all adapters resident ({:+.1f} %)\n",
                      ms_text(plan.layer_ends.back() - start), ms_text(resident),
                      resident > 0 ? ((plan.layer_ends.back() - start) / resident - 1) * 100 : 0.0);
  return text;
}

}  // namespace tandem
