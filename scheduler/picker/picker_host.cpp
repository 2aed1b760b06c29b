#include "scheduler/picker/picker_host.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "scheduler/router/engine_news.h"

namespace tandem {
namespace {

TimePoint time_now() {
  return std::chrono::steady_clock::now();
}

}  // namespace

Result<std::unique_ptr<PickerHost>> PickerHost::create(PickerOptions options,
                                                       std::unique_ptr<EngineSource> source) {
  TANDEM_ASSIGN(auto policy, make_policy(options.policy, options.policy_options));
  return std::unique_ptr<PickerHost>(
      new PickerHost(std::move(options), std::move(policy), std::move(source)));
}

PickerHost::PickerHost(PickerOptions options, std::unique_ptr<Policy> policy,
                       std::unique_ptr<EngineSource> source)
    : options_(std::move(options)),
      picker_(std::move(policy), options_.limits),
      source_(std::move(source)) {}

PickerHost::~PickerHost() {
  stop();
}

void PickerHost::start(std::function<void(bool ready)> readiness) {
  readiness_ = std::move(readiness);
  thread_ = std::thread([this] { loop_.run(); });
  source_->watch([this](std::vector<HttpAddress> addresses) {
    loop_.post([this, addresses = std::move(addresses)] { set_engines(addresses); });
  });
}

void PickerHost::stop() {
  source_.reset();
  loop_.stop();
  if (thread_.joinable()) thread_.join();
  watches_.clear();
}

Pick PickerHost::pick(const PickRequest& request) {
  Wanted wanted;
  if (auto refused = read_pick_request(request, options_.max_body_bytes,
                                       options_.policy_options.average_answer_tokens, wanted)) {
    metrics_.count_pick("", refused->status);
    Pick pick;
    pick.refused = std::move(refused);
    return pick;
  }
  Pick pick;
  {
    const std::lock_guard lock(mutex_);
    const TimePoint begin = time_now();
    pick = picker_.pick(std::move(wanted), request.subset, begin);
    metrics_.observe_decision(seconds_between(begin, time_now()));
    metrics_.set_running(picker_.running());
  }
  const std::string first = pick.endpoints.substr(0, pick.endpoints.find(','));
  metrics_.count_pick(first, pick.refused ? pick.refused->status : 0);
  return pick;
}

void PickerHost::served(PickId id, std::string_view endpoint) {
  const std::lock_guard lock(mutex_);
  const auto failed = picker_.served(id, endpoint, time_now());
  if (!failed) return;
  log::warning("{}: it was chosen, but {} answered; it gets nothing new until it reports",
               picker_.endpoint(*failed), endpoint);
  metrics_.count_failover(picker_.endpoint(*failed));
  note_engines();
}

void PickerHost::over(PickId id, bool answered) {
  const std::lock_guard lock(mutex_);
  picker_.over(id, answered, time_now());
  metrics_.set_running(picker_.running());
}

void PickerHost::look(const std::function<void(const Picker&)>& see) const {
  const std::lock_guard lock(mutex_);
  see(picker_);
}

void PickerHost::set_engines(const std::vector<HttpAddress>& addresses) {
  std::vector<EngineIndex> gone;
  std::vector<HttpAddress> fresh;
  {
    const std::lock_guard lock(mutex_);
    const auto& engines = picker_.cluster().engines();
    for (std::size_t i = 0; i < engines.size(); ++i) {
      if (!engines[i].gone && std::ranges::find(addresses, engines[i].address) == addresses.end()) {
        gone.emplace_back(static_cast<std::int32_t>(i));
      }
    }
    for (const HttpAddress& address : addresses) {
      const bool known = std::ranges::any_of(engines, [&](const EngineState& engine) {
        return !engine.gone && engine.address == address;
      });
      if (!known) fresh.push_back(address);
    }
  }
  for (const EngineIndex engine : gone) {
    watches_[engine.index()].reset();
    const std::lock_guard lock(mutex_);
    log::info("{}: the engine is gone", picker_.endpoint(engine));
    picker_.remove(engine);
  }
  for (const HttpAddress& address : fresh) add_engine(address);
  const std::lock_guard lock(mutex_);
  note_engines();
}

void PickerHost::add_engine(const HttpAddress& address) {
  EngineIndex engine;
  {
    const std::lock_guard lock(mutex_);
    engine = picker_.add(address);
  }
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

Status PickerHost::reported(EngineIndex engine, EngineReport report, bool first) {
  const std::lock_guard lock(mutex_);
  const EngineState& state = picker_.cluster().engines()[engine.index()];
  const EngineNews news(state);
  TANDEM_TRY(picker_.report(engine, std::move(report), first, time_now()));
  news.log_change(state);
  metrics_.set_running(picker_.running());
  note_engines();
  return {};
}

void PickerHost::lost(EngineIndex engine, const std::string& why) {
  const std::lock_guard lock(mutex_);
  log::warning("{}: the engine is set aside: {}", picker_.endpoint(engine), why);
  picker_.set_aside(engine, why);
  note_engines();
}

void PickerHost::note_engines() {
  const EngineCounts counts = count_engines(picker_.cluster().engines());
  metrics_.set_engines(counts.up, counts.all);
  const bool was_ready = ready_.exchange(counts.ready, std::memory_order_relaxed);
  if (was_ready != counts.ready && readiness_) readiness_(counts.ready);
}

}  // namespace tandem
