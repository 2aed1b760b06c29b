#include "engine/handoff/step_lessons.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "base/ids/ticket.h"
#include "engine/profile/layer_load.h"

namespace tandem {
namespace {

// The offers of one layer: the place of the first, and their number.
struct Offers {
  std::size_t first = 0;
  std::size_t count = 0;
};

std::vector<Offers> offers_of(const HandoffStep& step) {
  std::vector<Offers> offers(step.layers.size());
  for (std::size_t l = 0; l < offers.size(); ++l) {
    const auto& sites = step.layers[l].sites;
    for (std::size_t s = 0; s < sites.size(); ++s) {
      if (sites[s].offered() && offers[l].count++ == 0) {
        offers[l].first = offer_at(step.num_sites, l, s);
      }
    }
  }
  return offers;
}

std::vector<float> begins_of(const HandoffStep& step, std::span<const Offers> offers) {
  std::vector<float> begins(offers.size(), -1.0F);
  std::optional<std::size_t> first;
  for (std::size_t l = 0; l < offers.size(); ++l) {
    if (offers[l].count == 0) continue;
    if (!first) first = l;
    const std::uint64_t zero = step.times[offers[*first].first];
    const std::uint64_t at = step.times[offers[l].first];
    if (at < zero) continue;
    begins[l] = static_cast<float>(static_cast<double>(*first) * step.layer_s +
                                   static_cast<double>(at - zero) * 1e-9);
  }
  return begins;
}

// The work of the CPU workers in a layer, according to its tickets.
HandoverWork work_of(const CostModel& costs, const HandoffStep& step, const Offers& offers,
                     std::span<const std::vector<LayerLoad>> loads, std::size_t layer) {
  HandoverWork work;
  for (std::size_t g = 0; g < step.groups.size() && offers.count > 0; ++g) {
    const Ticket ticket = step.ticket(offers.first, g);
    if (ticket != Ticket::cpu && ticket != Ticket::cpu_xa) continue;
    const GroupOfStep& job = step.groups[g].job;
    work.add(costs.handover(loads[g][layer], static_cast<std::int32_t>(job.rows),
                            std::max(1, std::popcount(job.workers)), ticket == Ticket::cpu_xa));
  }
  return work;
}

// Marks the layers whose load may arrive after the step gets there, if every layer before them
// takes step.layer_s at least. Their waiting time must not be taken for work.
std::vector<bool> layers_that_may_wait(const HandoffStep& step) {
  std::vector<bool> may(step.layers.size(), false);
  for (const HandoffStep::Wait& wait : step.waits) {
    const double earliest = step.starts_in + static_cast<double>(wait.layer) * step.layer_s;
    if (wait.arrives > earliest) may[static_cast<std::size_t>(wait.layer)] = true;
  }
  return may;
}

// As layers_that_may_wait(), less the layers whose weights were expected long before the layer
// ahead of them was measured to begin: a step that workers delay finds weights that a faster step
// would have waited for.
std::vector<bool> layers_that_may_have_waited(const HandoffStep& step,
                                              std::span<const Offers> offers) {
  // The allowance for a late load.
  constexpr double kLate = 0.3, kLate_s = 50e-6;
  const std::vector<float> begins = begins_of(step, offers);
  std::vector<bool> may = layers_that_may_wait(step);
  std::vector<double> latest(may.size(), 0);
  for (const HandoffStep::Wait& wait : step.waits) {
    double& of = latest[static_cast<std::size_t>(wait.layer)];
    of = std::max(of, wait.arrives);
  }
  for (std::size_t l = 1; l < may.size(); ++l) {
    if (!may[l] || begins[l - 1] < 0) continue;
    const double before = step.starts_in + static_cast<double>(begins[l - 1]);
    may[l] = (1 + kLate) * latest[l] + kLate_s > before;
  }
  return may;
}

// True if the weights of all groups had arrived when the layer was offered.
bool device_had(const HandoffStep& step, const Offers& offers) {
  for (std::size_t g = 0; g < step.groups.size(); ++g) {
    if (step.ticket(offers.first, g) != Ticket::gpu) return false;
  }
  return offers.count > 0;
}

// Fewer samples show no trend.
constexpr std::size_t kFewest = 3;

struct Sample {
  double model_s, ratio;
};

double median(std::vector<Sample>& samples, double Sample::*member) {
  const auto middle = samples.begin() + std::ssize(samples) / 2;
  std::ranges::nth_element(samples, middle, {}, member);
  return (*middle).*member;
}

void observe(StallKind kind, std::vector<Sample>& samples, CostLearner& learner) {
  if (samples.size() < kFewest) return;
  // Workers that added no measurable time are taken to need almost none, as a ratio has to be above
  // 0.
  constexpr double kLeastRatio = 0.05;
  const double ratio = std::max(kLeastRatio, median(samples, &Sample::ratio));
  const double model_s = median(samples, &Sample::model_s);
  learner.observe_stall(kind, model_s, ratio * model_s);
}

// The value that has `rank` smaller or equal values before it.
double ranked(std::vector<double>& values, std::size_t rank) {
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(rank);
  std::ranges::nth_element(values, at);
  return *at;
}

// Bounds of the device's own time in a step, without waits and workers.
struct OwnTime {
  double least_s = 0, most_s;
};

// The upper bound takes a layer to be as long as the first quartile of the measured layers, and
// subtracts what the others took beyond that. The lower bound comes from the layers that the device
// computed alone; without enough of them it is 0.
OwnTime own_time(const HandoffStep& step, double seconds) {
  OwnTime own{0, seconds};
  if (step.groups.empty()) return own;
  const std::vector<Offers> offers = offers_of(step);
  const std::vector<double> seen = seen_layers(step);
  const std::vector<bool> may_wait = layers_that_may_wait(step);
  std::vector<double> all, alone;
  for (std::size_t l = 0; l + 1 < seen.size(); ++l) {
    if (seen[l] < 0) continue;
    all.push_back(seen[l]);
    if (!may_wait[l + 1] && device_had(step, offers[l])) alone.push_back(seen[l]);
  }
  if (all.size() < kFewest) return own;
  double layer_s = ranked(all, all.size() / 4);
  if (alone.size() >= kFewest) {
    layer_s = std::min(layer_s, ranked(alone, alone.size() / 2));
    own.least_s = layer_s * static_cast<double>(seen.size());
  }
  for (const double each : all) own.most_s -= std::max(0.0, each - layer_s);
  return own;
}

// Compresses "ccxxxw" to "c2 x3 w1".
std::string run_lengths(const std::string& letters) {
  std::string text;
  for (std::size_t begin = 0; begin < letters.size();) {
    const std::size_t end =
        std::min(letters.find_first_not_of(letters[begin], begin), letters.size());
    text += fmt::format("{}{}{}", text.empty() ? "" : " ", letters[begin], end - begin);
    begin = end;
  }
  return text;
}

std::string letters_of(const HandoffStep& step, std::span<const Offers> offers, std::size_t group) {
  constexpr std::string_view kLetters = "?gcxv";
  std::string letters;
  for (const Offers& of : offers) {
    const auto ticket = of.count == 0 ? 0 : static_cast<std::size_t>(step.ticket(of.first, group));
    letters += of.count == 0 ? 'w' : kLetters[std::min(ticket, kLetters.size() - 1)];
  }
  return letters;
}

}  // namespace

std::vector<float> layer_begins(const HandoffStep& step) {
  return begins_of(step, offers_of(step));
}

std::string who_had_layers(const HandoffStep& step, std::size_t group) {
  return letters_of(step, offers_of(step), group);
}

std::vector<double> seen_layers(const HandoffStep& step) {
  const std::vector<Offers> offers = offers_of(step);
  std::vector<double> seen(offers.size(), -1);
  for (std::size_t l = 0; l + 1 < offers.size(); ++l) {
    if (offers[l].count == 0 || offers[l + 1].count == 0) continue;
    const std::uint64_t begin = step.times[offers[l].first];
    const std::uint64_t end = step.times[offers[l + 1].first];
    if (end > begin) seen[l] = static_cast<double>(end - begin) * 1e-9;
  }
  return seen;
}

bool learn_layers(const CostModel& costs, const HandoffStep& step, double seconds,
                  CostLearner& learner) {
  const auto layers = static_cast<double>(step.layers.size());
  const double planned_s = step.layer_s * layers;
  const double model_s = costs.modelled_layer(step.rows) * layers;
  const OwnTime own = own_time(step, seconds);
  const bool too_long = own.most_s * FactorTracker::kBoundSlack < planned_s;
  const bool too_short = own.least_s > planned_s * FactorTracker::kBoundSlack;
  if (too_long) learner.bound_layers(step.rows, model_s, own.most_s, Bound::at_most);
  if (too_short) learner.bound_layers(step.rows, model_s, own.least_s, Bound::at_least);
  return too_long || too_short;
}

void learn_stalls(const ModelSpec& config, const CostModel& costs, const HandoffStep& step,
                  CostLearner& learner) {
  const std::vector<Offers> offers = offers_of(step);
  const std::vector<double> seen = seen_layers(step);
  std::vector<std::vector<LayerLoad>> loads;  // [groups]
  for (const HandoffStep::Group& group : step.groups) {
    loads.push_back(layer_loads(config, *group.job.adapter));
  }
  const std::vector<bool> may_have_waited = layers_that_may_have_waited(step, offers);
  std::array<std::vector<Sample>, kNumStallKinds> samples;
  for (std::size_t l = 0; l + 1 < seen.size(); ++l) {
    if (seen[l] < 0 || may_have_waited[l + 1]) continue;
    if (!step.unread.empty() && step.unread[l]) continue;
    const HandoverWork work = work_of(costs, step, offers[l], loads, l);
    if (work.sites == 0) continue;
    const double model_s = costs.modelled_stall(work, step.layer_s);
    samples[static_cast<std::size_t>(work.kind())].push_back(
        {model_s, (seen[l] - step.layer_s) / model_s});
  }
  for (std::size_t kind = 0; kind < samples.size(); ++kind) {
    observe(static_cast<StallKind>(kind), samples[kind], learner);
  }
}

std::string describe_step(const HandoffStep& step, double seconds) {
  const std::vector<Offers> offers = offers_of(step);
  const std::vector<double> seen = seen_layers(step);
  double planned_between = 0, seen_between = 0;
  std::size_t worst = 0;
  double worst_late_s = 0;
  for (std::size_t l = 0; l < seen.size(); ++l) {
    if (seen[l] < 0) continue;
    planned_between += step.planned_layers[l];
    seen_between += seen[l];
    const double late_s = seen[l] - step.planned_layers[l];
    if (late_s > worst_late_s) worst = l, worst_late_s = late_s;
  }
  std::vector<std::string> groups;
  if (step.groups.empty()) groups.emplace_back("all waited for");
  for (std::size_t g = 0; g < step.groups.size(); ++g) {
    groups.push_back(fmt::format("{} rows {}", step.groups[g].job.rows,
                                 run_lengths(letters_of(step, offers, g))));
  }
  return fmt::format(
      "cold step of {} rows: planned {:.3f} ms, took {:.3f}; between offers {:.3f}, {:.3f}{}; {}",
      step.rows, step.planned_s * 1e3, seconds * 1e3, planned_between * 1e3, seen_between * 1e3,
      worst_late_s > 0 ? fmt::format(", of it layer {} {:.3f} longer", worst, worst_late_s * 1e3)
                       : "",
      fmt::join(groups, ", "));
}

}  // namespace tandem
