#include "scheduler/cluster/members/consolidator.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "scheduler/cluster/members/scale_hint.h"

namespace tandem {
namespace {

// Candidates for rest tried in one call: each costs an estimate for every stream and engine.
constexpr std::size_t kLookAt = 4;
// One part in so many of each engine stays free, so that the load may grow before a resting engine
// is needed.
constexpr std::int64_t kMarginOf = 10;

void add_to(EngineView& view, std::int64_t places, const MoveCost& cost) {
  view.waiting.add(cost.prefill);
  view.waiting_rank_sum += cost.prefill.rank_max;
  view.running.requests += places - 1;
  view.kv_free_tokens -= cost.kv_tokens;
  view.link_queue_bytes += cost.load_bytes;  // the next cold load waits behind it
}

// Whether the engine is not full with the stream.
bool has_room_for(EngineView view, std::int64_t places, const MoveCost& cost) {
  add_to(view, places, cost);
  return !is_full(view);
}

}  // namespace

void Consolidator::wake(EngineIndex engine) {
  if (std::erase(resting_, engine) > 0) fits_since_.reset();
}

bool Consolidator::rests(EngineIndex engine) const {
  return std::ranges::find(resting_, engine) != resting_.end();
}

const std::vector<bool>* Consolidator::in_use(std::size_t num_engines) {
  if (resting_.empty()) return nullptr;
  in_use_.assign(num_engines, true);
  for (const EngineIndex engine : resting_) in_use_[engine.index()] = false;
  return &in_use_;
}

std::vector<EngineView> Consolidator::views_in_use(const Cluster& cluster) const {
  std::vector<EngineView> views;
  views.reserve(cluster.engines().size());
  for (std::size_t i = 0; i < cluster.engines().size(); ++i) {
    const EngineIndex engine(static_cast<std::int32_t>(i));
    views.push_back(cluster.view(engine));
    if (rests(engine)) views.back().accepts = false;
  }
  return views;
}

Consolidation Consolidator::look(const Cluster& cluster, std::int64_t waiting,
                                 const StreamsOf& streams_of, TimePoint now) {
  // An engine that is set aside or drains cannot be woken, so it does not count as resting.
  std::erase_if(resting_, [&](EngineIndex engine) { return !cluster.view(engine).accepts; });
  const std::vector<EngineView> views = views_in_use(cluster);
  const ScaleHint hint = scale_hint(views, waiting);
  if (hint.wanted > hint.engines) {
    if (!resting_.empty()) resting_.pop_back();
    fits_since_.reset();
    return {};
  }
  std::vector<EngineIndex> candidates;
  if (hint.wanted < hint.engines) candidates = hint.light;
  // The key is the same for all routers.
  const auto key = [&](EngineIndex engine) {
    return std::tuple(views[engine.index()].requests(),
                      cluster.engines()[engine.index()].address.text());
  };
  std::ranges::sort(candidates, {}, key);
  if (candidates.size() > kLookAt) candidates.resize(kLookAt);
  for (const EngineIndex engine : candidates) {
    auto moves = moves_off(cluster, views, engine, streams_of(engine), now);
    if (!moves) continue;
    if (!fits_since_) fits_since_ = now;
    if (now - *fits_since_ < options_.after) return {};
    fits_since_.reset();
    resting_.push_back(engine);
    return {engine, *std::move(moves)};
  }
  fits_since_.reset();
  return {};
}

std::optional<std::vector<StreamMove>> Consolidator::moves_off(
    const Cluster& cluster, std::vector<EngineView> views, EngineIndex engine,
    const std::vector<MovableStream>& streams, TimePoint now) const {
  views[engine.index()].accepts = false;
  std::int64_t others = views[engine.index()].requests();  // requests that this router cannot move
  std::vector<StreamMove> moves;
  for (std::size_t i = 0; i < streams.size(); ++i) {
    if (!streams[i].may_move) return std::nullopt;
    auto move = place_for(cluster, views, engine, streams[i], now);
    if (!move) return std::nullopt;
    move->stream = i;
    add_to(views[move->to.index()], streams[i].places, move->cost);
    others -= streams[i].places;
    moves.push_back(*move);
  }
  // Requests like those will come to the engines in use, and the load may grow a little.
  EngineView* emptiest = nullptr;
  for (EngineView& view : views) {
    if (!view.accepts) continue;
    if (emptiest == nullptr || view.requests() < emptiest->requests()) emptiest = &view;
  }
  if (emptiest == nullptr) return std::nullopt;
  emptiest->running.requests += std::max<std::int64_t>(0, others);
  for (EngineView& view : views) {
    view.running.requests += (view.max_requests + kMarginOf - 1) / kMarginOf;
    view.kv_free_tokens -= view.kv_tokens / kMarginOf;
  }
  const ScaleHint after = scale_hint(views, 0);
  if (after.wanted > after.engines) return std::nullopt;
  return moves;
}

// Prefers engines with the adapter on the device, then the fullest, so that others become free,
// too.
std::optional<StreamMove> Consolidator::place_for(const Cluster& cluster,
                                                  const std::vector<EngineView>& views,
                                                  EngineIndex from, const MovableStream& stream,
                                                  TimePoint now) const {
  std::optional<StreamMove> best;
  std::tuple<bool, std::int64_t> best_key;
  for (std::size_t i = 0; i < views.size(); ++i) {
    const EngineIndex engine(static_cast<std::int32_t>(i));
    // The stream's tokens are of this base model, and its end may need this much context.
    const EngineReport& here = cluster.engines()[from.index()].report;
    const EngineReport& there = cluster.engines()[i].report;
    if (there.model != here.model || there.max_model_len < here.max_model_len) continue;
    const auto cost = EngineSearch(cluster, stream.wanted).move_cost(engine, views[i], now);
    if (!cost || cost->pause_s > options_.max_pause_s) continue;
    if (!has_room_for(views[i], stream.places, *cost)) continue;
    const std::tuple key(cost->cold, -views[i].requests());
    if (best && key >= best_key) continue;
    best = StreamMove{0, engine, *cost};
    best_key = key;
  }
  return best;
}

}  // namespace tandem
