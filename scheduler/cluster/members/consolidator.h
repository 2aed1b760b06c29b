// Frees engines (Punica, section 5.1): when the load fits on fewer, the engine with the least load
// rests, and its streams continue on others.
//
//   in use --the load has fitted on the others for `after`--> rests
//      ^_______the others have no room, or lack the model_______|
//
// A resting engine gets no new requests while the others have room. Waking an engine is quick and
// putting it to rest takes long, so that a varying load does not move streams back and forth. No
// I/O, no clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "scheduler/cluster/members/engine_search.h"

namespace tandem {

struct ConsolidationOptions {
  bool on = false;
  // How long the load must have fitted on fewer engines; also the least time between putting two
  // engines to rest.
  Duration after = std::chrono::seconds(10);
  Duration again = std::chrono::seconds(60);  // least time between moves of a stream
  // An engine is not emptied if one of its streams is expected to pause for longer, including its
  // cold start.
  double max_pause_s = 1;
};

struct MovableStream {
  Wanted wanted;            // with the tokens sent so far as part of its prompt
  std::int64_t places = 1;  // places that it takes in a batch
  bool may_move = true;     // it was not moved recently
};

struct StreamMove {
  std::size_t stream = 0;  // index among the given streams
  EngineIndex to;
  MoveCost cost;
};

struct Consolidation {
  EngineIndex rests;  // the engine that rests from now on; not valid: none
  std::vector<StreamMove> moves;
};

// Used on the loop's thread. The caller passes the times, which must increase.
class Consolidator {
 public:
  // Returns this router's streams on an engine. All else there stays until it ends.
  using StreamsOf = std::function<std::vector<MovableStream>(EngineIndex)>;

  explicit Consolidator(const ConsolidationOptions& options) : options_(options) {}

  // Called a few times in `after`. Wakes an engine that is needed, or puts to rest the last engine
  // for which `streams_of` was called. `waiting`: requests that wait for an engine.
  Consolidation look(const Cluster& cluster, std::int64_t waiting, const StreamsOf& streams_of,
                     TimePoint now);
  // Ends the rest of an engine, because it is needed or gone.
  void wake(EngineIndex engine);

  // Returns by engine whether it may get a request, for Wanted::among; null: all may. Valid until
  // the next call of any member.
  const std::vector<bool>* in_use(std::size_t num_engines);
  bool rests(EngineIndex engine) const;
  std::int64_t num_resting() const { return static_cast<std::int64_t>(resting_.size()); }

 private:
  std::vector<EngineView> views_in_use(const Cluster& cluster) const;
  // Returns the targets of the streams; nothing if one has none, or too little room would be left.
  std::optional<std::vector<StreamMove>> moves_off(const Cluster& cluster,
                                                   std::vector<EngineView> views,
                                                   EngineIndex engine,
                                                   const std::vector<MovableStream>& streams,
                                                   TimePoint now) const;
  std::optional<StreamMove> place_for(const Cluster& cluster, const std::vector<EngineView>& views,
                                      EngineIndex from, const MovableStream& stream,
                                      TimePoint now) const;

  const ConsolidationOptions options_;
  std::vector<EngineIndex> resting_;     // in the order in which they were put to rest
  std::vector<bool> in_use_;             // scratch of in_use()
  std::optional<TimePoint> fits_since_;  // when the load began to fit on fewer engines
};

}  // namespace tandem
