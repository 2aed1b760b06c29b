#include "engine/server/cluster/stats_feed.h"

#include <pthread.h>

#include <algorithm>
#include <exception>
#include <utility>

#include <fmt/format.h>

#include "base/http/sse.h"
#include "engine/server/messages/response_building.h"
#include "scheduler/cluster/report/report_writer.h"

namespace tandem {
namespace {

using nlohmann::json;

constexpr std::size_t kEngineIdLength = 16;

// Returns the members of an object's JSON, without the braces.
std::string members_of(const json& object) {
  const std::string text = dump(object);
  return text.substr(1, text.size() - 2);
}

bool is_same(const AdapterPresence& a, const AdapterPresence& b) {
  // Names and digests are compared by address: new content of a name has new strings.
  return a.name == b.name && a.digest == b.digest && a.tier == b.tier && a.active == b.active;
}

}  // namespace

std::string new_engine_id() {
  return random_id("").substr(0, kEngineIdLength);
}

class StatsFeed::Watcher final : public BodySource {
 public:
  explicit Watcher(StatsFeed& feed) : feed_(&feed) {
    const std::lock_guard lock(feed_->mutex_);
    id_ = feed_->next_watcher_++;
    feed_->watched_.emplace(id_, Watched{});
  }
  ~Watcher() override {
    const std::lock_guard lock(feed_->mutex_);
    feed_->watched_.erase(id_);
  }
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  void on_ready(std::function<void()> wake) override {
    const std::lock_guard lock(feed_->mutex_);
    feed_->watched_.at(id_).wake = std::move(wake);
  }
  std::string_view filler() const override { return kSseComment; }

  Pull pull(std::string& out) override {
    std::shared_ptr<const Picture> picture;
    {
      const std::lock_guard lock(feed_->mutex_);
      picture = feed_->picture_;
      if (picture->version <= told_) return Pull::wait;
      feed_->watched_.at(id_).told = picture->version;
    }
    out += sse_event(event(*picture, told_, ++seq_));
    told_ = picture->version;
    return Pull::wait;
  }

 private:
  StatsFeed* feed_;
  std::uint64_t id_ = 0;
  std::uint64_t told_ = 0;
  std::uint64_t seq_ = 0;
};

StatsFeed::StatsFeed(GenerationService& service, EngineIdentity engine, IsDraining is_draining,
                     const StatsFeedOptions& options)
    : service_(&service),
      engine_(std::move(engine)),
      is_draining_(std::move(is_draining)),
      options_(options) {}

StatsFeed::~StatsFeed() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::string StatsFeed::look() {
  const std::lock_guard taking(taking_);
  return event(*take_picture(nullptr), 0, 1);
}

std::unique_ptr<BodySource> StatsFeed::watch() {
  auto watcher = std::make_unique<Watcher>(*this);
  refresh(/*tell_anyway=*/true);
  {
    const std::lock_guard lock(mutex_);
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  }
  changed_.notify_all();
  return watcher;
}

std::shared_ptr<const StatsFeed::Picture> StatsFeed::picture() const {
  const std::lock_guard lock(mutex_);
  return picture_;
}

std::uint64_t StatsFeed::version() const {
  const std::lock_guard lock(mutex_);
  return picture_ == nullptr ? 0 : picture_->version;
}

// Compares with the previous picture and marks which adapters have changed or are gone.
std::shared_ptr<const StatsFeed::Picture> StatsFeed::take_picture(const Picture* before) const {
  auto picture = std::make_shared<Picture>();
  picture->version = before == nullptr ? 1 : before->version + 1;
  EngineReport report;
  static_cast<EngineIdentity&>(report) = engine_;
  report.view = service_->view();
  report.draining = is_draining_() || !report.view.accepts;
  report.view.accepts = !report.draining;
  json head = report_head(report);
  picture->head = members_of(head);
  head.erase("step_ends_in_s");  // changes with time alone
  picture->steady = dump(head);
  std::vector<AdapterPresence> adapters = service_->presences();
  picture->adapters.reserve(adapters.size());
  static const std::vector<Entry> kNone;
  const std::vector<Entry>& known = before == nullptr ? kNone : before->adapters;
  if (before != nullptr) picture->removed = before->removed;
  auto old = known.begin();
  const auto pass_over = [&](const std::string* name) {  // all before it are gone
    while (old != known.end() && (name == nullptr || *old->adapter.name < *name)) {
      picture->removed.push_back({*old->adapter.name, picture->version});
      ++old;
    }
  };
  for (AdapterPresence& adapter : adapters) {
    pass_over(adapter.name.get());
    std::uint64_t version = picture->version;
    if (old != known.end() && *old->adapter.name == *adapter.name) {
      if (is_same(old->adapter, adapter)) version = old->version;
      ++old;
    }
    picture->adapters.push_back({std::move(adapter), version});
  }
  pass_over(nullptr);
  return picture;
}

void StatsFeed::refresh(bool tell_anyway) {
  const std::lock_guard taking(taking_);
  const std::shared_ptr<const Picture> before = picture();
  std::shared_ptr<const Picture> now = take_picture(before.get());
  const bool has_changed =
      before == nullptr || now->steady != before->steady ||
      now->removed.size() != before->removed.size() ||
      std::any_of(now->adapters.begin(), now->adapters.end(),
                  [&](const Entry& entry) { return entry.version == now->version; });
  if (!has_changed && !tell_anyway) return;
  const std::lock_guard lock(mutex_);
  picture_ = std::move(now);
  for (const auto& [id, watched] : watched_) {
    if (watched.wake) watched.wake();
  }
}

std::string StatsFeed::event(const Picture& picture, std::uint64_t told, std::uint64_t seq) {
  std::string adapters;
  for (const Entry& entry : picture.adapters) {
    if (entry.version <= told) continue;
    if (!adapters.empty()) adapters += ',';
    adapters += dump(adapter_json(entry.adapter));
  }
  std::string removed;
  for (const Removal& removal : picture.removed) {
    if (removal.version <= told || told == 0) continue;
    const auto at = std::lower_bound(
        picture.adapters.begin(), picture.adapters.end(), removal.name,
        [](const Entry& entry, const std::string& name) { return *entry.adapter.name < name; });
    if (at != picture.adapters.end() && *at->adapter.name == removal.name)
      continue;  // it was
                 // loaded
                 // again
    if (!removed.empty()) removed += ',';
    removed += dump(json(removal.name));
  }
  return fmt::format(R"({{"seq":{},{},"adapters":[{}],"removed":[{}]}})", seq, picture.head,
                     adapters, removed);
}

void StatsFeed::run() {
  pthread_setname_np(pthread_self(), "stats feed");
  const SteadyClock clock;
  TimePoint told = clock.now();
  while (true) {
    {
      std::unique_lock lock(mutex_);
      // Without watchers no data of the engine is kept.
      while (watched_.empty() && !stopping_) {
        picture_.reset();
        changed_.wait(lock);
      }
      if (changed_.wait_for(lock, options_.look_every, [this] { return stopping_; })) return;
      // Removals that every watcher has received are dropped.
      std::uint64_t least = ~std::uint64_t{0};
      for (const auto& [id, watched] : watched_) least = std::min(least, watched.told);
      if (picture_ != nullptr && !picture_->removed.empty() &&
          picture_->removed.front().version <= least) {
        auto pruned = std::make_shared<Picture>(*picture_);
        std::erase_if(pruned->removed, [&](const Removal& each) { return each.version <= least; });
        picture_ = std::move(pruned);
      }
    }
    try {
      const TimePoint now = clock.now();
      const std::uint64_t before = version();
      refresh(now - told >= options_.tell_every);
      if (version() != before) told = now;
    } catch (const std::exception&) {  // no memory; the next picture tries again
    }
  }
}

}  // namespace tandem
