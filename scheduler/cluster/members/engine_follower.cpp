#include "scheduler/cluster/members/engine_follower.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

#include "base/log/log.h"
#include "scheduler/cluster/members/engine_news.h"

namespace tandem {

EngineFollower::EngineFollower(EventLoop& loop, HttpClient& client, Cluster& cluster,
                               FollowerHost& host, std::unique_ptr<EngineSource> source,
                               FollowerOptions options)
    : loop_(loop),
      client_(client),
      cluster_(cluster),
      host_(host),
      options_(std::move(options)),
      source_(std::move(source)) {}

EngineFollower::~EngineFollower() {
  stop();
}

void EngineFollower::begin() {
  source_->watch_adapters([this](std::vector<OfferedAdapter> adapters) {
    loop_.post([this, adapters = std::move(adapters)] { set_adapters(adapters); });
  });
  source_->watch([this](std::vector<HttpAddress> addresses) {
    loop_.post([this, addresses = std::move(addresses)] { set_engines(addresses); });
  });
}

void EngineFollower::stop() {
  source_.reset();
  watches_.clear();
}

bool EngineFollower::has_heard_all() const {
  return told_ && std::ranges::all_of(cluster_.engines(), [](const EngineState& engine) {
           return engine.heard || engine.gone;
         });
}

void EngineFollower::set_adapters(const std::vector<OfferedAdapter>& adapters) {
  const auto guard = host_.guard();
  cluster_.set_offered(adapters);
}

void EngineFollower::set_engines(const std::vector<HttpAddress>& addresses) {
  std::vector<std::pair<EngineIndex, HttpAddress>> fresh;
  {
    const auto guard = host_.guard();
    told_ = true;
    const auto& engines = cluster_.engines();
    for (std::size_t i = 0; i < engines.size(); ++i) {
      const EngineState& state = engines[i];
      const bool listed = std::ranges::find(addresses, state.address) != addresses.end();
      if (state.gone || state.listed == listed) continue;
      const EngineIndex engine(static_cast<std::int32_t>(i));
      cluster_.set_listed(engine, listed);
      if (!listed && state.up) {
        log::info("{}: the engine is no longer listed; it is used for as long as it reports",
                  state.address.text());
      }
      let_go_if_silent(engine);
    }
    for (const HttpAddress& address : addresses) {
      const bool known = std::ranges::any_of(engines, [&](const EngineState& engine) {
        return !engine.gone && engine.address == address;
      });
      if (known) continue;
      fresh.emplace_back(cluster_.add(address), address);
      host_.engine_added(fresh.back().first);
    }
    host_.engines_changed();
  }
  for (const auto& [engine, address] : fresh) listen_to(engine, address);
}

// Called under the guard.
void EngineFollower::let_go_if_silent(EngineIndex engine) {
  const EngineState& state = cluster_.engines()[engine.index()];
  if (state.gone || state.listed || state.up) return;
  log::info("{}: the engine is gone", state.address.text());
  watches_[engine.index()].reset();
  cluster_.remove(engine);
  host_.engine_gone(engine);
}

void EngineFollower::listen_to(EngineIndex engine, const HttpAddress& address) {
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

Status EngineFollower::reported(EngineIndex engine, EngineReport report, bool first) {
  const auto guard = host_.guard();
  const EngineState& state = cluster_.engines()[engine.index()];
  const EngineNews news(state);
  TANDEM_TRY(cluster_.report(engine, std::move(report), first, std::chrono::steady_clock::now()));
  news.log_change(state);
  host_.engines_changed();
  return {};
}

void EngineFollower::lost(EngineIndex engine, const std::string& why) {
  const auto guard = host_.guard();
  const EngineState& state = cluster_.engines()[engine.index()];
  log::warning("{}: the engine is set aside: {}", state.address.text(), why);
  cluster_.set_aside(engine, why);
  host_.engine_lost(engine, why);
  host_.engines_changed();
  if (state.listed) return;
  // Removed later, because the engine's watch is the caller.
  loop_.post([this, engine] {
    const auto later = host_.guard();
    let_go_if_silent(engine);
    host_.engines_changed();
  });
}

}  // namespace tandem
