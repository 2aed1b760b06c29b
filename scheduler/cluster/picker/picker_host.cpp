#include "scheduler/cluster/picker/picker_host.h"

#include <chrono>
#include <utility>

#include "base/log/log.h"
#include "scheduler/cluster/members/engine_news.h"

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
      follower_(loop_, client_, picker_.cluster(), *this, std::move(source),
                {.watch = options_.watch, .api_key = options_.api_key}) {}

PickerHost::~PickerHost() {
  stop();
}

void PickerHost::start(std::function<void(bool ready)> readiness) {
  readiness_ = std::move(readiness);
  thread_ = std::thread([this] { loop_.run(); });
  follower_.begin();
}

void PickerHost::stop() {
  loop_.stop();
  if (thread_.joinable()) thread_.join();
  follower_.stop();
}

Pick PickerHost::pick(const PickRequest& request) {
  Wanted wanted;
  if (auto refused = read_pick_request(request, options_.max_body_bytes,
                                       options_.policy_options.average_answer_tokens, wanted)) {
    count_refusal(refused->status);
    Pick pick;
    pick.refused = std::move(refused);
    return pick;
  }
  Pick pick;
  {
    const std::lock_guard lock(mutex_);
    const TimePoint begin = time_now();
    pick = picker_.pick(std::move(wanted), request.subset, begin);
    metrics_.observe(picker_metrics::kDecision, seconds_between(begin, time_now()));
    metrics_.set(picker_metrics::kRunning, picker_.running());
  }
  if (const std::string first = pick.endpoints.substr(0, pick.endpoints.find(','));
      !first.empty()) {
    metrics_.count(picker_metrics::kPicks, {{"engine", first}});
  } else {
    count_refusal(pick.refused ? pick.refused->status : 0);
  }
  return pick;
}

void PickerHost::count_refusal(int status) {
  metrics_.count(picker_metrics::kRefusals, {{"status", std::to_string(status)}});
}

void PickerHost::served(PickId id, std::string_view endpoint) {
  const std::lock_guard lock(mutex_);
  const auto failed = picker_.served(id, endpoint, time_now());
  if (!failed) return;
  log::warning("{} was chosen, but {} answered instead; it gets no new requests until it reports",
               picker_.endpoint(*failed), endpoint);
  metrics_.count(picker_metrics::kFailovers, {{"engine", picker_.endpoint(*failed)}});
  note_engines();
}

void PickerHost::over(PickId id, bool answered) {
  const std::lock_guard lock(mutex_);
  picker_.over(id, answered, time_now());
  metrics_.set(picker_metrics::kRunning, picker_.running());
}

void PickerHost::look(const std::function<void(const Picker&)>& see) const {
  const std::lock_guard lock(mutex_);
  see(picker_);
}

void PickerHost::engines_changed() {
  picker_.settle(time_now());
  metrics_.set(picker_metrics::kRunning, picker_.running());
  note_engines();
}

void PickerHost::note_engines() {
  const EngineCounts counts = count_engines(picker_.cluster().engines());
  metrics_.set(picker_metrics::kUp, counts.up);
  metrics_.set(picker_metrics::kEngines, counts.all);
  const bool was_ready = ready_.exchange(counts.ready, std::memory_order_relaxed);
  if (was_ready != counts.ready && readiness_) readiness_(counts.ready);
}

}  // namespace tandem
