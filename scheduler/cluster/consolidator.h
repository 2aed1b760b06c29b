// Frees engines (Punica, section 5.1): when the load fits on fewer, the one that has the least of
// it rests, and its streams go on at others.
//
//   in use --the load has fitted on the others for `after`--> rests
//      ^_______the others have no room, or lack the model_______|
//
// What rests gets nothing new while the others have room. To wake it takes a moment, to be put to
// rest long, so that load which comes and goes moves nothing to and fro. No I/O, no clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "scheduler/cluster/cluster.h"

namespace tandem {

struct ConsolidationOptions {
  bool on = false;
  // The load must have fitted on fewer engines for so long; also the least time between two that
  // are put to rest.
  Duration after = std::chrono::seconds(10);
  Duration again = std::chrono::seconds(60);  // a stream that was moved stays for so long
  // An engine with a stream that would be expected to say nothing for longer, its cold start
  // counted, is left as it is.
  double max_pause_s = 1;
};

struct MovableStream {
  Wanted wanted;            // with what it has said as part of its prompt
  std::int64_t places = 1;  // that it takes in a batch
  bool may_move = true;     // it was not moved of late
};

struct StreamMove {
  std::size_t stream = 0;  // of those that were given
  EngineIndex to;
  MoveCost cost;
};

struct Consolidation {
  EngineIndex rests;  // from now on; not valid: none
  std::vector<StreamMove> moves;
};

// On the loop's thread; times are the caller's, and go up.
class Consolidator {
 public:
  // This router's streams at an engine. What else runs there stays until it ends.
  using StreamsOf = std::function<std::vector<MovableStream>(EngineIndex)>;

  explicit Consolidator(const ConsolidationOptions& options) : options_(options) {}

  // To be called a few times in `after`. Wakes an engine that is needed, or puts one to rest; the
  // last that `streams_of` was asked for is that one. `waiting`: requests before the engines.
  Consolidation look(const Cluster& cluster, std::int64_t waiting, const StreamsOf& streams_of,
                     TimePoint now);
  // It is needed after all, or gone.
  void wake(EngineIndex engine);

  // Who may get a request, for Wanted::among; null: all. Until the next call of anything here.
  const std::vector<bool>* in_use(std::size_t num_engines);
  bool rests(EngineIndex engine) const;
  std::int64_t num_resting() const { return static_cast<std::int64_t>(resting_.size()); }

 private:
  std::vector<EngineView> views_in_use(const Cluster& cluster) const;
  // Where each of them goes; nothing: one has no place, or the rest would have no room to spare.
  std::optional<std::vector<StreamMove>> moves_off(const Cluster& cluster,
                                                   std::vector<EngineView> views,
                                                   EngineIndex engine,
                                                   const std::vector<MovableStream>& streams,
                                                   TimePoint now) const;
  std::optional<StreamMove> place_for(const Cluster& cluster, const std::vector<EngineView>& views,
                                      EngineIndex from, const MovableStream& stream,
                                      TimePoint now) const;

  const ConsolidationOptions options_;
  std::vector<EngineIndex> resting_;     // the last put to rest last
  std::vector<bool> in_use_;             // scratch of in_use()
  std::optional<TimePoint> fits_since_;  // the load, on fewer engines
};

}  // namespace tandem
