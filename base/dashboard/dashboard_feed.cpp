#include "base/dashboard/dashboard_feed.h"

#include <pthread.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "base/http/sse.h"

namespace tandem {
class DashboardFeed::Viewer final : public BodySource {
 public:
  // Called under the feed's mutex.
  explicit Viewer(DashboardFeed& feed) : feed_(&feed), id_(feed.next_viewer_++) {
    feed.viewers_.emplace(id_, nullptr);
  }
  ~Viewer() override {
    const std::lock_guard lock(feed_->mutex_);
    feed_->viewers_.erase(id_);
  }
  Viewer(const Viewer&) = delete;
  Viewer& operator=(const Viewer&) = delete;

  void on_ready(std::function<void()> wake) override {
    const std::lock_guard lock(feed_->mutex_);
    feed_->viewers_.at(id_) = std::move(wake);
  }
  std::string_view filler() const override { return kSseComment; }

  Pull pull(std::string& out) override {
    std::shared_ptr<const State> state;
    {
      const std::lock_guard lock(feed_->mutex_);
      state = feed_->state_;
    }
    if (state == nullptr || state->version <= told_) return Pull::wait;
    out += sse_event(event(*state, told_));
    told_ = state->version;
    return Pull::wait;
  }

 private:
  DashboardFeed* feed_;
  std::uint64_t id_;
  std::uint64_t told_ = 0;
};

DashboardFeed::DashboardFeed(Look look, const DashboardFeedOptions& options)
    : look_(std::move(look)), options_(options) {}

DashboardFeed::~DashboardFeed() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::unique_ptr<BodySource> DashboardFeed::watch() {
  std::unique_ptr<BodySource> viewer;
  {
    const std::lock_guard lock(mutex_);
    if (viewers_.size() >= options_.most_viewers) return nullptr;
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
    viewer = std::make_unique<Viewer>(*this);
  }
  changed_.notify_all();
  return viewer;
}

// Finds unchanged and removed rows by merging both lists, which are sorted by key.
std::shared_ptr<const DashboardFeed::State> DashboardFeed::next(const State* before,
                                                                DashboardPicture picture) {
  auto state = std::make_shared<State>();
  state->version = before == nullptr ? 1 : before->version + 1;
  state->head = std::move(picture.head);
  if (before != nullptr) {
    state->removed = before->removed;
    while (!state->removed.empty() &&
           state->removed.front().version + kRemembered < state->version) {
      state->removed.pop_front();
    }
  }
  for (std::size_t t = 0; t < picture.tables.size(); ++t) {
    DashboardTable& table = picture.tables[t];
    static const std::vector<Kept> kNone;
    const std::vector<Kept>& known = before == nullptr ? kNone : before->tables[t];
    auto old = known.begin();
    const auto pass_over = [&](const std::string* key) {  // all old rows before this key are gone
      for (; old != known.end() && (key == nullptr || old->row.key < *key); ++old) {
        state->removed.push_back({t, old->row.key, state->version});
      }
    };
    std::vector<Kept> rows;
    rows.reserve(table.rows.size());
    for (DashboardRow& row : table.rows) {
      pass_over(&row.key);
      std::uint64_t version = state->version;
      if (old != known.end() && old->row.key == row.key) {
        if (old->row.json == row.json) version = old->version;
        ++old;
      }
      rows.push_back({std::move(row), version});
    }
    pass_over(nullptr);
    state->names.push_back(std::move(table.name));
    state->tables.push_back(std::move(rows));
  }
  return state;
}

std::string DashboardFeed::event(const State& state, std::uint64_t told) {
  const bool whole = told == 0 || told + kRemembered < state.version;
  std::string text = "{" + state.head + R"(,"tables":{)";
  for (std::size_t t = 0; t < state.tables.size(); ++t) {
    if (t > 0) text += ',';
    text += '"' + state.names[t];
    text += whole ? R"(":{"whole":true,"rows":[)" : R"(":{"whole":false,"rows":[)";
    bool first = true;
    for (const Kept& kept : state.tables[t]) {
      if (!whole && kept.version <= told) continue;
      if (!std::exchange(first, false)) text += ',';
      text += kept.row.json;
    }
    text += R"(],"removed":[)";
    first = true;
    for (const Removal& removal : state.removed) {
      if (whole || removal.table != t || removal.version <= told) continue;
      const auto& rows = state.tables[t];
      const auto back = std::ranges::lower_bound(
          rows, removal.key, {},
          [](const Kept& kept) -> const std::string& { return kept.row.key; });
      if (back != rows.end() && back->row.key == removal.key) continue;
      if (!std::exchange(first, false)) text += ',';
      text += removal.key;
    }
    text += "]}";
  }
  text += "}}";
  return text;
}

void DashboardFeed::run() {
  pthread_setname_np(pthread_self(), "dashboard");
  while (true) {
    std::shared_ptr<const State> before;
    {
      std::unique_lock lock(mutex_);
      while (viewers_.empty() && !stopping_) {
        state_.reset();
        changed_.wait(lock);
      }
      if (stopping_) return;
      before = state_;
    }
    try {
      std::shared_ptr<const State> now = next(before.get(), look_());
      const std::lock_guard lock(mutex_);
      state_ = std::move(now);
      for (const auto& [id, wake] : viewers_) {
        if (wake) wake();
      }
    } catch (const std::exception&) {  // out of memory: the next picture may be possible
    }
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, options_.look_every, [this] { return stopping_; })) return;
  }
}

}  // namespace tandem
