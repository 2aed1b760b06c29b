// The engines of the router: which there are, and what their watches tell.
#include <algorithm>
#include <utility>

#include "base/log.h"
#include "scheduler/router/engine_news.h"
#include "scheduler/router/router.h"

namespace tandem {

void Router::set_engines(const std::vector<HttpAddress>& addresses) {
  const auto& engines = cluster_.engines();
  for (std::size_t i = 0; i < engines.size(); ++i) {
    const EngineState& state = engines[i];
    const bool listed = std::ranges::find(addresses, state.address) != addresses.end();
    if (state.gone || state.listed == listed) continue;
    const EngineIndex engine(static_cast<std::int32_t>(i));
    cluster_.set_listed(engine, listed);
    if (!listed && state.up) {
      log::info("{}: the engine is listed no more; it stays for as long as it is heard",
                state.address.text());
    }
    let_go_if_silent(engine);
  }
  for (const HttpAddress& address : addresses) {
    const bool known = std::any_of(engines.begin(), engines.end(), [&](const EngineState& engine) {
      return !engine.gone && engine.address == address;
    });
    if (!known) add_engine(address);
  }
  note_engines();
}

void Router::let_go_if_silent(EngineIndex engine) {
  const EngineState& state = cluster_.engines()[engine.index()];
  if (state.gone || state.listed || state.up) return;
  log::info("{}: the engine is gone", state.address.text());
  watches_[engine.index()].reset();
  cluster_.remove(engine);
}

void Router::add_engine(const HttpAddress& address) {
  const EngineIndex engine = cluster_.add(address);
  if (watches_.size() <= engine.index()) watches_.resize(engine.index() + 1);
  auto& watch = watches_[engine.index()];
  watch = std::make_unique<StatsWatch>(
      loop_, client_, address, watch_request(options_.api_key), options_.watch,
      StatsWatch::Listener{[this, engine](EngineReport report, bool first) {
                             return reported(engine, std::move(report), first);
                           },
                           [this, engine](const std::string& why) { lost(engine, why); }});
  watch->begin();
}

Status Router::reported(EngineIndex engine, EngineReport report, bool first) {
  const EngineState& state = cluster_.engines()[engine.index()];
  const EngineNews news(state);
  TANDEM_TRY(cluster_.report(engine, std::move(report), first, now()));
  news.log_change(state);
  note_engines();
  if (!queue_.empty()) serve_queue();
  return {};
}

void Router::lost(EngineIndex engine, const std::string& why) {
  log::warning("{}: the engine is set aside: {}", cluster_.engines()[engine.index()].address.text(),
               why);
  cluster_.set_aside(engine, why);
  note_engines();
  // What it was asked goes elsewhere now, and not when its own deadlines pass.
  std::vector<CallPointer> there;
  for (const auto& [pointer, call] : calls_) {
    if (call->engine() == engine) there.push_back(call);
  }
  for (const CallPointer& call : there) call->engine_lost(why);
  // Not at once: it is the engine's watch that calls.
  if (!cluster_.engines()[engine.index()].listed) {
    loop_.post([this, engine] {
      let_go_if_silent(engine);
      note_engines();
    });
  }
}

void Router::note_engines() {
  const EngineCounts counts = count_engines(cluster_.engines());
  metrics_.set_engines(counts.up, counts.all);
  ready_.store(counts.ready, std::memory_order_relaxed);
}

}  // namespace tandem
