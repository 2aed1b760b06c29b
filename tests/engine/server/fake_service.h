// A GenerationService with answers from the test's script, and a codec whose tokens are bytes.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "engine/server/messages/text_codec.h"
#include "engine/service/service.h"

namespace tandem {

// Ids 0 to 255 are bytes; 256 is "<s>", which add_special puts first.
class ByteCodec : public TextCodec {
 public:
  static constexpr TokenId kBos = 256;

  Result<std::vector<TokenId>> encode(std::string_view text, bool add_special) const override {
    std::vector<TokenId> ids;
    if (add_special) ids.push_back(kBos);
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    return ids;
  }
  // The texts have <s> before each.
  Result<std::vector<TokenId>> encode_pair(std::string_view first,
                                           std::string_view second) const override {
    std::vector<TokenId> ids = *encode(first, true);
    const std::vector<TokenId> tail = *encode(second, true);
    ids.insert(ids.end(), tail.begin(), tail.end());
    return ids;
  }
  std::string decode(std::span<const TokenId> ids, bool skip_special) const override {
    std::string text;
    for (const TokenId id : ids) {
      if (id < kBos) text += static_cast<char>(id);
      if (id == kBos && !skip_special) text += "<s>";
    }
    return text;
  }
  std::size_t vocab_size() const override { return 257; }
  std::string id_to_token(TokenId id) const override {
    return id == kBos ? "<s>" : std::string(1, static_cast<char>(id));
  }
  std::string token_bytes(TokenId id) const override {
    return id == kBos ? "" : std::string(1, static_cast<char>(id));
  }
  std::optional<TokenId> special_token(std::string_view text) const override {
    const auto found = std::find(special.begin(), special.end(), text);
    if (found == special.end()) return std::nullopt;
    return static_cast<TokenId>(300 + (found - special.begin()));
  }
  bool has_chat_template() const override { return chat; }
  Result<std::string> render_chat(const ChatInput& input, const ChatSource&) const override {
    std::string text;
    for (const auto& message : input.messages) {
      const auto role = message["role"].get<std::string>();
      if (role == "nobody") return invalid("no role 'nobody'");
      const bool has_content = message.contains("content") && message["content"].is_string();
      text += role + ": " + (has_content ? message["content"].get<std::string>() : "") + "\n";
    }
    if (input.add_generation_prompt) text += "assistant:";
    return text;
  }

  bool chat = true;
  std::vector<std::string> special;  // their ids begin at 300; no text encodes to them
};

// One submitted request, as the test sees it.
class FakeRun {
 public:
  explicit FakeRun(GenerationRequest asked) : request(std::move(asked)) {}

  void push(OutputDelta delta) {
    {
      const std::lock_guard lock(mutex_);
      news_.push_back(std::move(delta));
    }
    changed_.notify_all();
    const std::lock_guard lock(tell_mutex_);
    if (tell_) tell_();
  }
  void say(std::string text, std::int32_t index = 0) {
    OutputDelta delta;
    delta.index = index;
    delta.text = std::move(text);
    push(std::move(delta));
  }
  void finish(FinishReason reason = FinishReason::stop, std::int32_t index = 0) {
    OutputDelta delta;
    delta.index = index;
    delta.finish = reason;
    if (request.pooling != Pooling::none) delta.pooled = {1};
    push(std::move(delta));
  }
  void fail(Status status) {
    OutputDelta delta;
    delta.finish = FinishReason::failed;
    delta.error = std::move(status);
    push(std::move(delta));
  }
  // Returns once the server has cancelled it; the test's time-out is the limit.
  void wait_cancelled() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return cancelled_; });
  }
  void cancel() {
    {
      const std::lock_guard lock(mutex_);
      cancelled_ = true;
    }
    changed_.notify_all();
  }
  std::optional<OutputDelta> next(Duration timeout) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, timeout, [&] { return !news_.empty(); });
    if (news_.empty()) return std::nullopt;
    OutputDelta delta = std::move(news_.front());
    news_.pop_front();
    if (delta.finish != FinishReason::none) ++finished_;
    return delta;
  }
  bool done() const {
    const std::lock_guard lock(mutex_);
    return finished_ >= request.n;
  }
  void on_news(std::function<void()> tell) {
    const std::lock_guard telling(tell_mutex_);
    tell_ = std::move(tell);
    if (tell_) tell_();
  }
  // Number of updates that the server has not read yet.
  std::size_t unread() const {
    const std::lock_guard lock(mutex_);
    return news_.size();
  }

  const GenerationRequest request;
  GenerationStats stats;

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<OutputDelta> news_;
  std::int32_t finished_ = 0;
  bool cancelled_ = false;
  std::mutex tell_mutex_;
  std::function<void()> tell_;
};

class FakeGeneration final : public Generation {
 public:
  explicit FakeGeneration(std::shared_ptr<FakeRun> run) : run_(std::move(run)) {}
  ~FakeGeneration() override {
    run_->on_news({});
    if (!run_->done()) run_->cancel();
  }
  std::optional<OutputDelta> next(Duration timeout) override { return run_->next(timeout); }
  bool done() const override { return run_->done(); }
  void on_news(std::function<void()> tell) override { run_->on_news(std::move(tell)); }
  GenerationStats stats() const override { return run_->stats; }
  void cancel() override { run_->cancel(); }

 private:
  std::shared_ptr<FakeRun> run_;
};

class FakeService final : public GenerationService {
 public:
  // Called with each submitted run, on the submitting thread. By default it answers at once.
  std::function<void(FakeRun&)> script = [](FakeRun& run) {
    for (std::int32_t i = 0; i < run.request.n; ++i) {
      run.say("Hello", i);
      run.say(" there", i);
      run.finish(FinishReason::stop, i);
    }
  };
  Status submit_status;  // an error is returned by submit()
  Status load_status;
  std::function<void()> on_load;
  bool is_ready = true;
  bool enforces = true;
  // If set, it replaces open_adapter_file().
  std::function<Result<AdapterFile>(const std::string&, std::string_view)> open_file;
  // If set, it is called by compile() on another thread. Otherwise compiling succeeds at once.
  std::function<Status(const TextConstraint&)> compiler;

  Result<std::unique_ptr<Generation>> submit(GenerationRequest request) override {
    std::shared_ptr<FakeRun> run;
    {
      const std::lock_guard lock(mutex_);
      if (drained_) return Status(StatusCode::unavailable, "draining");
      if (!submit_status) return submit_status;
      run = std::make_shared<FakeRun>(std::move(request));
      run->stats.prompt_tokens = static_cast<std::int32_t>(run->request.prompt.size());
      run->stats.completion_tokens = 2 * run->request.n;
      run->stats.cached_tokens = 1;
      run->stats.ttft_s = 0.25;
      run->stats.queue_s = 0.125;
      run->stats.total_s = 0.5;
      run->stats.adapter_tier = run->request.adapter.empty() ? "" : "host";
      run->stats.cpu_layers = run->request.adapter.empty() ? 0 : 3;
    }
    script(*run);
    {
      const std::lock_guard lock(mutex_);
      runs_.push_back(run);
    }
    changed_.notify_all();
    return std::unique_ptr<Generation>(std::make_unique<FakeGeneration>(run));
  }
  // Waits for the i-th request.
  std::shared_ptr<FakeRun> run(std::size_t i) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return runs_.size() > i; });
    return runs_[i];
  }
  std::size_t num_runs() {
    const std::lock_guard lock(mutex_);
    return runs_.size();
  }

  Status load_adapter(const std::string& name, const std::string& path, bool in_place,
                      bool pinned) override {
    if (on_load) on_load();
    const std::lock_guard lock(mutex_);
    if (!load_status) return load_status;
    if (adapters_.contains(name) && adapters_[name].path != path && !in_place) {
      return Status(StatusCode::already_exists, "the name is taken by " + adapters_[name].path);
    }
    AdapterInfo info;
    info.name = name;
    info.path = path;
    info.rank = 8;
    info.modules = {"q_proj", "v_proj"};
    info.bytes = 4096;
    info.tier = "host";
    info.pinned = pinned;
    info.loaded_unix = 1700000000;
    adapters_[name] = info;
    return {};
  }
  Status unload_adapter(const std::string& name) override {
    const std::lock_guard lock(mutex_);
    if (adapters_.erase(name) == 0) return Status(StatusCode::not_found, "no adapter " + name);
    return {};
  }
  std::vector<AdapterInfo> adapters() const override {
    const std::lock_guard lock(mutex_);
    std::vector<AdapterInfo> all;
    for (const auto& [name, info] : adapters_) all.push_back(info);
    return all;
  }
  std::vector<AdapterInfo> adapter_sets() const override { return adapters(); }
  EngineStats stats() const override {
    EngineStats stats;
    stats.running = 3;
    stats.waiting = 2;
    stats.page_tokens = 16;
    stats.pages_total = 100;
    for (const double seconds : {0.25, 0.5}) stats.adapter_load.count(kAdapterLoadBounds, seconds);
    stats.pages_kv = 25;
    stats.pages_free = 60;
    stats.pages_cached = 5;
    stats.pages_adapter = 10;
    stats.prefix_queries = 99;
    stats.prefix_hits = 33;
    stats.prompt_tokens = 1234;
    stats.generation_tokens = 567;
    stats.preemptions = 4;
    stats.steps_at_once = 6;
    stats.steps_in_time = 70;
    stats.steps_late = 8;
    stats.enqueue_margin_s = 0.0005;
    for (const double seconds : {0.0005, 0.004, 9.0}) {
      stats.inter_token.count(kInterTokenBounds, seconds);
    }
    for (const double tokens : {1.0, 9.0}) stats.step_tokens.count(kStepTokensBounds, tokens);
    return stats;
  }
  LearnedCosts learned_costs() const override {
    LearnedCosts learned;
    learned.factors = {{"link", 1.25, {}, 9}, {"read_xa", 0.5, {0.5, 0.75}, 4}};
    learned.lessons = 321;
    learned.situations = 7;
    learned.plans_followed = 60;
    learned.plans_given_up = 5;
    learned.worker_wake_s = 0.25;
    return learned;
  }
  bool has_adapter(const std::string& name) const override {
    const std::lock_guard lock(mutex_);
    return adapters_.contains(name);
  }
  Result<AdapterFile> open_adapter_file(const std::string& digest,
                                        std::string_view file) const override {
    return open_file ? open_file(digest, file) : GenerationService::open_adapter_file(digest, file);
  }
  void drain() override {
    const std::lock_guard lock(mutex_);
    drained_ = true;
  }
  bool ready() const override { return is_ready; }
  bool enforces_constraints() const override { return enforces; }
  void compile(const TextConstraint& constraint, ConstraintDone done) override {
    if (!compiler) return done(std::shared_ptr<const CompiledConstraint>());
    const std::lock_guard lock(mutex_);
    compiling_.emplace_back([this, constraint, done = std::move(done)] {
      const Status status = compiler(constraint);
      if (status.ok()) return done(std::shared_ptr<const CompiledConstraint>());
      done(status);
    });
  }
  void set_running(const std::string& name, std::int32_t running) {
    const std::lock_guard lock(mutex_);
    adapters_[name].running = running;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<FakeRun>> runs_;
  std::map<std::string, AdapterInfo> adapters_;
  bool drained_ = false;
  std::vector<std::jthread> compiling_;  // last, to be destroyed before what they use
};

}  // namespace tandem
