#include "scheduler/planning/coldstart/planner.h"

#include <algorithm>
#include <limits>

#include "scheduler/planning/coldstart/handoff_timeline.h"

namespace tandem {
namespace {

// Limits of a search: pairs of adapters and layers that it evaluates (about 40 us), the fewest
// shapes that it may try, and the divisor for loads from disk, which take longer to evaluate.
constexpr std::int32_t kMostPairs = 16000;
constexpr std::int32_t kFewestAttempts = 48;
constexpr std::int32_t kDiskFactor = 4;
// The cost of waiting, as a share of the step, above which other plans are tried. The first layer
// on workers takes longer than later ones, whose weights they have read ahead.
constexpr double kWorthSearching = 0.06;
// The search also climbs from a B-first shape up to so many times as late as the best without B
// first.
constexpr double kWorthClimbing = 1.3;

// Tries load shapes, none of them twice.
class ShapeSearch {
 public:
  struct Found {
    LoadShape shape;
    double end;
  };

  explicit ShapeSearch(HandoffTimeline& timeline)
      : timeline_(timeline),
        left_(std::max(kFewestAttempts,
                       kMostPairs / (timeline.num_adapters() * timeline.num_layers()))) {
    if (timeline.any_from_disk()) left_ /= kDiskFactor;
    tried_.reserve(static_cast<std::size_t>(std::min(left_, 256)));
  }

  bool attempt(LoadShape shape, Found& best) {
    const auto count = static_cast<std::int32_t>(timeline_.to_load().size());
    const std::int32_t layers = timeline_.num_layers();
    shape.lead = std::clamp(shape.lead, timeline_.least_lead(), count);
    shape.whole_from = std::clamp(shape.whole_from, 0, layers);
    shape.b_first_to = std::clamp(shape.b_first_to, 0, layers);
    if (shape.b_first_to <= shape.whole_from) shape.b_first_to = 0;
    if (shape.lead == count) shape = {count, 0, 0};
    if (left_ <= 0 || std::find(tried_.begin(), tried_.end(), shape) != tried_.end()) return false;
    tried_.push_back(shape);
    --left_;
    const double end = timeline_.end_of(shape, best.end);
    if (end >= best.end) return false;
    best = {shape, end};
    return true;
  }

  // Hill climbing: tries neighbours in all directions, at distances that halve down to one.
  void climb(LoadShape step, Found& best) {
    while (left_ > 0) {
      bool better = false;
      const auto look = [&](std::int32_t lead, std::int32_t whole_from, std::int32_t b_first_to) {
        const LoadShape& at = best.shape;
        const std::int32_t b_first = std::max(at.b_first_to, at.whole_from) + b_first_to;
        better |= attempt({at.lead + lead, at.whole_from + whole_from,
                           at.b_first_to == 0 && b_first_to <= 0 ? 0 : b_first},
                          best);
      };
      for (const std::int32_t sign : {-1, 1}) {
        look(0, sign * step.whole_from, 0);
        look(sign * step.lead, 0, 0);
        look(0, 0, sign * step.b_first_to);
        look(sign * step.lead, -sign * step.whole_from, 0);
      }
      if (better) continue;
      if (step == LoadShape{1, 1, 1}) return;
      step = {std::max(1, step.lead / 2), std::max(1, step.whole_from / 2),
              std::max(1, step.b_first_to / 2)};
    }
  }

 private:
  HandoffTimeline& timeline_;
  std::int32_t left_;  // attempts
  std::vector<LoadShape> tried_;
};

// Climbs from the best of a coarse grid of shapes without B first, and from the best of one with
// it: a climb from one may miss the best of the other. Returns the plain load, which is tried
// first, if no shape ends earlier.
LoadShape find_shape(HandoffTimeline& timeline) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  if (timeline.num_layers() == 0) return {};
  const std::int32_t layers = timeline.num_layers();
  const auto count = static_cast<std::int32_t>(timeline.to_load().size());
  ShapeSearch tried(timeline);
  ShapeSearch::Found whole{{}, kNever}, b_first{{}, kNever};
  tried.attempt({}, whole);
  const std::int32_t step = std::max(1, layers / 4);
  const std::int32_t stride = std::max(1, count / 4);
  const std::int32_t none = timeline.least_lead();
  for (std::int32_t k = step; k <= layers; k += step) tried.attempt({none, k, 0}, whole);
  for (std::int32_t lead = none + stride; lead < count; lead += stride) {
    tried.attempt({lead, layers / 2, 0}, whole);
    tried.attempt({lead, layers, 0}, whole);
  }
  b_first.end = kWorthClimbing * whole.end;
  for (std::int32_t lead = none; lead < count; lead += stride) {
    tried.attempt({lead, 0, layers / 2}, b_first);
    tried.attempt({lead, 0, layers}, b_first);
    tried.attempt({lead, layers / 2, layers}, b_first);
  }
  const LoadShape steps{std::max(1, stride / 2), std::max(1, step / 2), std::max(1, step / 2)};
  ShapeSearch::Found& first = whole.end <= b_first.end ? whole : b_first;
  ShapeSearch::Found& second = whole.end <= b_first.end ? b_first : whole;
  tried.climb(steps, first);
  tried.climb(steps, second);
  return first.end <= second.end ? first.shape : second.shape;
}

// The loads in the order of the request's adapters, layers interleaved.
std::vector<LoadPiece> as_given(const PlanRequest& request) {
  std::vector<LoadPiece> order;
  const std::size_t layers = request.adapters.front().layers.size();
  for (std::size_t l = 0; l < layers; ++l) {
    for (std::size_t i = 0; i < request.adapters.size(); ++i) {
      if (!request.adapters[i].a_arrives.empty()) continue;
      order.push_back({static_cast<std::int32_t>(i), static_cast<std::int32_t>(l)});
    }
  }
  return order;
}

// The plan with the same choice for every layer and the order of as_given(), which is loaded into
// the timeline.
HandoffPlan plan_alike(HandoffTimeline& timeline, const PlanRequest& request, LayerChoice choice) {
  HandoffPlan plan;
  plan.resident_ends = timeline.resident_ends();
  if (timeline.num_adapters() == 0) return plan;
  plan.order = as_given(request);
  timeline.load(plan.order);
  plan.choices = timeline.all_of(choice);
  timeline.run(plan.choices, plan.layer_ends);
  return plan;
}

// A piece of a load under way: the part of a layer that arrives at once.
struct PieceUnderWay {
  double arrives;
  std::size_t layer;
  PieceKind kind;
};

std::vector<PieceUnderWay> pieces_under_way(const ColdAdapter& adapter) {
  std::vector<PieceUnderWay> pieces;
  for (std::size_t l = 0; l < adapter.a_arrives.size(); ++l) {
    const double a = adapter.a_arrives[l], b = adapter.b_arrives[l];
    if (a == b) {
      pieces.push_back({a, l, PieceKind::layer});
    } else {
      pieces.push_back({a, l, PieceKind::a});
      pieces.push_back({b, l, PieceKind::b});
    }
  }
  std::erase_if(pieces, [](const PieceUnderWay& piece) { return !(piece.arrives > 0); });
  std::ranges::stable_sort(pieces, {}, &PieceUnderWay::arrives);
  return pieces;
}

}  // namespace

void put_off_unread(const CostModel& costs, ColdAdapter& adapter) {
  if (adapter.host_arrives.empty()) return;
  double link = 0;
  for (const PieceUnderWay& piece : pieces_under_way(adapter)) {
    const LayerLoad& layer = adapter.layers[piece.layer];
    if (layer.sites == 0) continue;
    const std::int64_t bytes = (piece.kind == PieceKind::b ? 0 : layer.a_bytes) +
                               (piece.kind == PieceKind::a ? 0 : layer.b_bytes);
    const double read = adapter.host_arrives[piece.layer];
    const bool put_off = read > 0 || link > piece.arrives;
    const double earliest = std::max(link, read) + costs.load_time(bytes, layer.copies);
    link = put_off ? std::max(piece.arrives, earliest) : piece.arrives;
    if (piece.kind != PieceKind::b) adapter.a_arrives[piece.layer] = link;
    if (piece.kind != PieceKind::a) adapter.b_arrives[piece.layer] = link;
  }
}

HandoffPlan plan_handoff(const CostModel& costs, const PlanRequest& request) {
  HandoffTimeline timeline(costs, request);
  HandoffPlan plan = plan_alike(timeline, request, LayerChoice::wait);
  if (request.workers <= 0 || !is_worth_planning(request, plan)) return plan;
  double best_end = plan.layer_ends.back();

  const auto keep_if_better = [&](HandoffTimeline::Choices choices) {
    std::vector<double> ends;
    const double end = timeline.run(choices, ends);
    if (end >= best_end) return false;
    best_end = end;
    plan.choices = std::move(choices);
    plan.layer_ends = std::move(ends);
    return true;
  };
  keep_if_better(timeline.all_of(LayerChoice::cpu));

  const LoadShape shape = timeline.to_load().empty() ? LoadShape{} : find_shape(timeline);
  std::vector<LoadPiece> order = timeline.order_of(shape);
  timeline.load(order);
  if (keep_if_better(timeline.choose())) plan.order = std::move(order);
  return plan;
}

HandoffPlan plan_waiting(const CostModel& costs, const PlanRequest& request) {
  PlanRequest alone = request;
  alone.workers = 0;
  return plan_handoff(costs, alone);
}

HandoffPlan plan_assisting(const CostModel& costs, const PlanRequest& request) {
  HandoffTimeline timeline(costs, request);
  return plan_alike(timeline, request, request.workers > 0 ? LayerChoice::cpu : LayerChoice::wait);
}

double step_seconds(const PlanRequest& request, const HandoffPlan& plan) {
  return plan.layer_ends.empty() ? 0 : plan.layer_ends.back() - std::max(0.0, request.starts_in);
}

bool hands_over(const HandoffPlan& plan) {
  return std::ranges::any_of(plan.choices, [](const std::vector<LayerChoice>& layers) {
    return std::ranges::any_of(layers,
                               [](LayerChoice choice) { return choice != LayerChoice::wait; });
  });
}

// Below the limit, the possible gain is smaller than the error of the costs, and the search takes
// time, too.
bool is_worth_planning(const PlanRequest& request, const HandoffPlan& waiting) {
  if (waiting.layer_ends.empty()) return false;
  const double resident_s = waiting.resident_ends - std::max(0.0, request.starts_in);
  return waiting.layer_ends.back() - waiting.resident_ends > kWorthSearching * resident_s;
}

void predict(const CostModel& costs, const PlanRequest& request, HandoffPlan& plan) {
  HandoffTimeline timeline(costs, request);
  timeline.load(std::span<const LoadPiece>(plan.order));
  timeline.run(plan.choices, plan.layer_ends);
  plan.resident_ends = timeline.resident_ends();
}

}  // namespace tandem
