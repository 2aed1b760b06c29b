#include "tests/scheduler/cluster/router/stub_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/http/sse.h"

namespace tandem {
namespace {

using nlohmann::json;

constexpr auto kBeat = std::chrono::milliseconds(100);

int token_of(std::uint64_t seed, std::size_t choice, int i) {
  std::uint64_t x = seed * 0x9e3779b97f4a7c15ULL + choice * 7919 + static_cast<std::uint64_t>(i);
  x = (x ^ (x >> 31)) * 0xbf58476d1ce4e5b9ULL;
  return static_cast<int>((x >> 33) % 50'000);
}

// The text of every third token is held back until the next one, like that of a cut character.
bool held_back(int i, int total) {
  return i % 3 == 1 && i + 1 < total;
}

}  // namespace

bool eventually(const std::function<bool()>& holds) {
  for (int i = 0; i < 5000; ++i) {
    if (holds()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return holds();
}

class StubEngine::Watch final : public BodySource {
 public:
  explicit Watch(StubEngine& engine) : engine_(engine) {
    const std::lock_guard lock(engine_.mutex_);
    engine_.watches_.push_back(this);
  }
  ~Watch() override {
    const std::lock_guard lock(engine_.mutex_);
    std::erase(engine_.watches_, this);
  }
  void on_ready(std::function<void()> wake) override {
    const std::lock_guard lock(engine_.mutex_);
    wake_ = std::move(wake);
  }
  Pull pull(std::string& out) override {
    const std::lock_guard lock(engine_.mutex_);
    if (engine_.silent_ || !due_) return Pull::wait;
    due_ = false;
    out += sse_event(engine_.event(++seq_));
    return Pull::wait;
  }
  // Requires the engine's lock.
  void tell() {
    due_ = true;
    if (wake_) wake_();
  }

 private:
  StubEngine& engine_;
  std::function<void()> wake_;
  bool due_ = true;
  std::uint64_t seq_ = 0;
};

namespace {

class NeverAnswered final : public DeferredResponse {
 public:
  void on_ready(std::function<void()>) override {}
  bool ready() override { return false; }
  HttpResponse take() override { return {}; }
};

class Endless final : public BodySource {
 public:
  void on_ready(std::function<void()>) override {}
  Pull pull(std::string& out) override {
    out.append(std::size_t{64} << 10, 'x');
    return Pull::more;
  }
};

}  // namespace

class StubEngine::Stream final : public BodySource {
 public:
  Stream(StubEngine& engine, const json& wrapper, StubScript script)
      : engine_(engine), script_(script) {
    const json& request = wrapper["request"];
    base_ = {{"id", wrapper["id"]}, {"created", wrapper["created"]}};
    seed_ = request.value("seed", wrapper["seed"].get<std::uint64_t>());
    total_ = request.value("max_tokens", 16);
    choices_.resize(request.value("n", std::size_t{1}));
    usage_ = request.contains("stream_options");
    for (std::size_t c = 0; c < choices_.size() && wrapper.contains("sent"); ++c) {
      const json& sent = wrapper["sent"][c];
      for (const json& token : sent["tokens"]) {
        if (token != token_of(seed_, c, choices_[c].at)) wrong_ = true;
        ++choices_[c].at;
      }
      if (!sent["finish"].is_null()) choices_[c].over = true;
    }
    if (wrapper.contains("sent") && wrapper["sent"].size() != choices_.size()) wrong_ = true;
  }
  ~Stream() override {
    if (!ended_) ++engine_.cancelled_;
  }
  bool wrong() const { return wrong_; }
  void tell_weights(const json& weights) {
    weights_ = fmt::format(":weights {} {}\n", weights["base"].get<std::string>(),
                           weights["adapter"] == "" ? "-" : weights["adapter"].get<std::string>());
  }
  void on_ready(std::function<void()>) override {}
  std::string_view filler() const override { return kSseComment; }

  // Gives one token per call.
  Pull pull(std::string& out) override {
    if (said_ == script_.break_at) {
      if (script_.within_event) out += "data: {\"id\":\"half an ev";
      return finish(Pull::broken);
    }
    if (said_ == script_.move_at) {
      out += ":moved\n\n";
      return finish(Pull::end);
    }
    if (said_ == script_.error_at) {
      out += sse_event(R"({"error":{"message":"no device","type":"server_error"}})");
      out += kSseDone;
      return finish(Pull::end);
    }
    if (said_ == script_.stall_at) return Pull::wait;
    for (std::size_t i = 0; i < choices_.size(); ++i) {
      const std::size_t c = (turn_ + i) % choices_.size();
      if (choices_[c].over) continue;
      turn_ = c + 1;
      say(c, out);
      return Pull::more;
    }
    if (usage_) {
      json last = base_;
      last["choices"] = json::array();
      last["usage"] = {{"completion_tokens", total_ * static_cast<int>(choices_.size())}};
      out += sse_event(last.dump());
    }
    out += kSseDone;
    return finish(Pull::end);
  }

 private:
  struct Choice {
    int at = 0;
    std::string held;
    bool over = false;
  };
  Pull finish(Pull how) {
    ended_ = true;
    return how;
  }
  void say(std::size_t c, std::string& out) {
    Choice& choice = choices_[c];
    const int token = token_of(seed_, c, choice.at);
    out += std::exchange(weights_, {});
    out += fmt::format(":tokens {} {}\n", c, token);
    choice.held += fmt::format(" t{}", token);
    ++said_;
    const int i = choice.at++;
    choice.over = choice.at == total_;
    if (held_back(i, total_)) {
      out += '\n';  // a separate event
      return;
    }
    json chunk = base_;
    chunk["choices"] = json::array();
    chunk["choices"].push_back({{"index", c},
                                {"text", std::exchange(choice.held, {})},
                                {"finish_reason", choice.over ? json("length") : json()}});
    out += sse_event(chunk.dump());
  }

  StubEngine& engine_;
  const StubScript script_;
  json base_;
  std::uint64_t seed_ = 0;
  int total_ = 0;
  bool usage_ = false;
  std::vector<Choice> choices_;
  std::size_t turn_ = 0;
  int said_ = 0;
  bool wrong_ = false;
  std::string weights_;
  std::atomic<bool> ended_{false};
};

StubEngine::StubEngine(std::string id, std::vector<StubAdapter> adapters, int port)
    : id_(std::move(id)), adapters_(std::move(adapters)) {
  HttpOptions options;
  options.host = "127.0.0.1";
  options.port = port;
  options.max_body_bytes = 8U << 20;
  options.max_connections = 4096;
  options.keep_alive = std::chrono::seconds(75);
  options.client_timeout = std::chrono::seconds(20);
  server_ = std::make_unique<HttpServer>(options, *this);
  if (!server_->start()) std::abort();
  heart_ = std::thread([this] { beat(); });
}

StubEngine::~StubEngine() {
  kill();
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  heart_.join();
}

std::string StubEngine::url() const {
  return fmt::format("http://127.0.0.1:{}", port());
}

void StubEngine::kill() {
  server_->stop();
}

void StubEngine::beat() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    changed_.wait_for(lock, kBeat);
    for (Watch* watch : watches_) watch->tell();
  }
}

void StubEngine::set_script(StubScript script) {
  const std::lock_guard lock(mutex_);
  script_ = script;
}
void StubEngine::set_accepts(bool accepts) {
  {
    const std::lock_guard lock(mutex_);
    accepts_ = accepts;
  }
  changed_.notify_all();
}
void StubEngine::set_lie(json lie) {
  {
    const std::lock_guard lock(mutex_);
    lie_ = std::move(lie);
  }
  changed_.notify_all();
}
void StubEngine::set_base(std::string base) {
  {
    const std::lock_guard lock(mutex_);
    base_ = std::move(base);
  }
  changed_.notify_all();
}
void StubEngine::set_silent(bool silent) {
  const std::lock_guard lock(mutex_);
  silent_ = silent;
}
json StubEngine::last_request() const {
  const std::lock_guard lock(mutex_);
  return last_request_;
}

// Requires the lock.
std::string StubEngine::event(std::uint64_t seq) const {
  json list = json::array();
  if (seq == 1) {
    for (const StubAdapter& adapter : adapters_) {
      list.push_back({{"name", adapter.name},
                      {"digest", adapter.digest},
                      {"rank", adapter.rank},
                      {"bytes", 1000},
                      {"tier", adapter.tier},
                      {"active", 0}});
    }
  }
  json event = {
      {"engine",
       {{"id", id_},
        {"version", "0"},
        {"model", "base"},
        {"base", base_},
        {"max_model_len", 4096}}},
      {"seq", seq},
      {"accepts", accepts_},
      {"draining", !accepts_},
      {"mixed_steps", true},
      {"running", {{"requests", 0}, {"rank_sum", 0}, {"rank_max", 0}, {"context_tokens", 0}}},
      {"waiting",
       {{"requests", 0}, {"tokens", 0}, {"rank_tokens", 0}, {"rank_max", 0}, {"rank_sum", 0}}},
      {"max_requests", 256},
      {"kv_tokens", 131072},
      {"kv_free_tokens", 131072},
      {"adapter_free_bytes", 1 << 30},
      {"link_queue_bytes", 0},
      {"fetch_queue_bytes", 0},
      {"free_workers", 2},
      {"step_ends_in_s", nullptr},
      {"costs", {{"kernel", "bgmv"}, {"step_s", 0.01}, {"rank_s", 1e-5}}},
      {"cold", {{"link_bytes_per_s", 1e9}, {"cpu_assist", false}}},
      {"adapters", list},
      {"removed", json::array()}};
  event.merge_patch(lie_);
  return event.dump();
}

HttpResponse StubEngine::handle(const HttpRequest& request) {
  HttpResponse response;
  if (request.path == "/v1/stats" && request.query == "watch=1") {
    response = sse_response();
    response.source = std::make_unique<Watch>(*this);
  } else if (request.path == "/v1/stats") {
    const std::lock_guard lock(mutex_);
    response.body = event(1);
  } else if (request.path == "/v1/drain") {
    set_accepts(!json::parse(request.body).value("drain", true));
    response.body = "{}";
  } else if (request.path == "/v1/relay") {
    return relay(request);
  } else if (request.path == "/v1/models") {
    json data = json::array({{{"id", "base"}}});
    for (const StubAdapter& adapter : adapters_) data.push_back({{"id", adapter.name}});
    response.body = json{{"object", "list"}, {"data", data}}.dump();
  } else if (request.path == "/v1/adapters") {
    json data = json::array();
    for (const StubAdapter& adapter : adapters_) data.push_back({{"name", adapter.name}});
    const json refused = json::array({{{"name", "bad"}, {"path", "/bad"}, {"reason", "it is"}}});
    response.body = json{{"object", "list"}, {"data", data}, {"refused", refused}}.dump();
  } else if (request.path == "/openapi.json") {
    const auto call = [](const char* summary) { return json{{"summary", summary}}; };
    response.body = json{{"openapi", "3.1.0"},
                         {"paths",
                          {{"/v1/completions", {{"post", call("Continue prompts")}}},
                           {"/v1/models/{id}", {{"get", call("One of them")}}},
                           {"/v1/relay", {{"post", call("Internal")}}}}}}
                        .dump();
  } else if (request.path == "/tokenize") {
    response.body = R"({"tokens":[1,2]})";
  } else if (request.path == "/v1/load_lora_adapter" && id_ == "refuses") {
    return refuse(409, "the name is taken");
  } else if (request.path == "/v1/load_lora_adapter") {
    response.body = "Success";
  } else {
    return refuse(404, "no such path");
  }
  return response;
}

// Returns the weights of the requested model. Requires the lock.
json StubEngine::weights_for(const json& wrapper) const {
  json weights = {{"base", base_}, {"adapter", ""}};
  for (const StubAdapter& adapter : adapters_) {
    if (adapter.name == wrapper["request"].value("model", "")) weights["adapter"] = adapter.digest;
  }
  return weights;
}

HttpResponse StubEngine::relay(const HttpRequest& request) {
  const json wrapper = json::parse(request.body);
  ++relays_;
  if (wrapper.contains("sent")) ++continued_;
  StubScript script;
  json weights;
  {
    const std::lock_guard lock(mutex_);
    last_request_ = wrapper;
    script = script_;
    if (!base_.empty()) weights = weights_for(wrapper);
  }
  if (wrapper.contains("weights") && wrapper["weights"] != weights) {
    return refuse(409, "these are other weights");
  }
  if (script.status != 0) return refuse(script.status, script.reason);
  HttpResponse response = sse_response();
  auto stream = std::make_unique<Stream>(*this, wrapper, script);
  if (stream->wrong()) return refuse(400, "these tokens were never sent");
  if (!weights.is_null()) stream->tell_weights(weights);
  if (wrapper["request"].value("stream", false)) {
    response.source = std::move(stream);
    return response;
  }
  if (script.stall_at >= 0) {
    response = {};
    response.deferred = std::make_unique<NeverAnswered>();
    return response;
  }
  if (script.endless) {
    response = {};
    response.source = std::make_unique<Endless>();
    return response;
  }
  std::string all;
  for (;;) {
    const BodySource::Pull pulled = stream->pull(all);
    if (pulled == BodySource::Pull::end) break;
    if (pulled != BodySource::Pull::broken) continue;
    response.source = std::move(stream);  // breaks as well
    return response;
  }
  response = {};
  response.body = json{{"id", wrapper["id"]}, {"seed", wrapper["seed"]}, {"events", all}}.dump();
  return response;
}

HttpResponse StubEngine::refuse(int status, std::string_view reason) {
  HttpResponse response;
  response.status = status;
  response.body = json{{"error", {{"message", reason}, {"type", "stub"}, {"code", "stub"}}}}.dump();
  return response;
}

}  // namespace tandem
