#include "tools/bench/relay_stub.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/http/client/http_client.h"
#include "base/http/http_server.h"
#include "base/http/sse.h"
#include "base/log/log.h"

namespace tandem {
namespace {

constexpr Duration kPace = std::chrono::milliseconds(2);
constexpr int kTicksPerBeat = 100;
constexpr std::string_view kMadeAt = "\"text\":\"";
constexpr Duration kPatience = std::chrono::seconds(30);

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

double median(std::vector<double>& values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Streams that send a token with each tick.
class Ticker {
 public:
  using Wakes = std::vector<std::pair<void*, std::function<void()>>>;

  void add(void* stream, std::function<void()> wake) {
    const std::lock_guard lock(mutex_);
    wakes_.emplace_back(stream, std::move(wake));
  }
  void remove(void* stream) {
    const std::lock_guard lock(mutex_);
    std::erase_if(wakes_, [&](const auto& wake) { return wake.first == stream; });
  }
  void tick() {
    ++ticks_;
    const std::lock_guard lock(mutex_);
    for (const auto& [stream, wake] : wakes_) wake();
  }
  int ticks() const { return ticks_; }

 private:
  std::atomic<int> ticks_{0};
  std::mutex mutex_;
  Wakes wakes_;
};

class PacedSource : public BodySource {
 public:
  explicit PacedSource(Ticker& ticker) : ticker_(ticker) {}
  ~PacedSource() override { ticker_.remove(this); }
  PacedSource(const PacedSource&) = delete;
  PacedSource& operator=(const PacedSource&) = delete;
  void on_ready(std::function<void()> wake) override { ticker_.add(this, std::move(wake)); }

 protected:
  Ticker& ticker_;
};

class Answer final : public PacedSource {
 public:
  Answer(Ticker& ticker, std::int64_t tokens) : PacedSource(ticker), left_(tokens) {}
  Pull pull(std::string& out) override {
    if (std::exchange(seen_, ticker_.ticks()) == ticker_.ticks()) return Pull::wait;
    // The text is the time at which the event was made.
    out += fmt::format(
        ":tokens 0 {}\n"
        "data: {{\"choices\":[{{\"finish_reason\":{},\"index\":0,\"logprobs\":null,"
        "\"stop_reason\":null,\"text\":\"{}\"}}],\"created\":1763800000,"
        "\"id\":\"cmpl-0123456789abcdef01234567\",\"model\":\"m\",\"object\":\"text_completion\"}}"
        "\n\n",
        left_, left_ == 1 ? "\"length\"" : "null", now_ns());
    if (--left_ > 0) return Pull::wait;
    out += kSseDone;
    return Pull::end;
  }

 private:
  std::int64_t left_;
  int seen_ = -1;
};

class Statistics final : public PacedSource {
 public:
  Statistics(Ticker& ticker, int engine) : PacedSource(ticker), engine_(engine) {}
  Pull pull(std::string& out) override {
    if (seq_ > 0 && ticker_.ticks() - told_ < kTicksPerBeat) return Pull::wait;
    told_ = ticker_.ticks();
    out += sse_event(fmt::format(
        R"({{"engine":{{"id":"{}","model":"m","max_model_len":4096}},"seq":{},"accepts":true,)"
        R"("draining":false,"mixed_steps":true,"running":{{"requests":0,"rank_sum":0,)"
        R"("rank_max":0,"context_tokens":0}},"waiting":{{"requests":0,"tokens":0,"rank_tokens":0,)"
        R"("rank_max":0,"rank_sum":0}},"max_requests":100000,"kv_tokens":100000000,)"
        R"("kv_free_tokens":100000000,"adapter_free_bytes":0,"link_queue_bytes":0,)"
        R"("fetch_queue_bytes":0,"free_workers":0,"step_ends_in_s":null,)"
        R"("costs":{{"step_s":0.01}},"adapters":[],"removed":[]}})",
        engine_, ++seq_));
    return Pull::wait;
  }

 private:
  const int engine_;
  std::uint64_t seq_ = 0;
  int told_ = 0;
};

class Stub final : public HttpHandler {
 public:
  Stub(Ticker& ticker, int engine, std::int64_t tokens)
      : ticker_(ticker), engine_(engine), tokens_(tokens) {}
  std::optional<HttpResponse> screen(const HttpRequest&) override { return std::nullopt; }
  HttpResponse handle(const HttpRequest& request) override {
    HttpResponse response = sse_response();
    if (request.path == "/v1/relay") {
      response.source = std::make_unique<Answer>(ticker_, tokens_);
    } else {
      response.source = std::make_unique<Statistics>(ticker_, engine_);
    }
    return response;
  }
  HttpResponse refuse(int status, std::string_view) override {
    HttpResponse response;
    response.status = status;
    return response;
  }

 private:
  Ticker& ticker_;
  const int engine_;
  const std::int64_t tokens_;
};

// Clients that each send the next request when they have an answer.
class Clients {
 public:
  Clients(const RelayOrder& order, std::string_view target, std::int64_t concurrent)
      : address_{"127.0.0.1", static_cast<int>(order.port)}, left_(order.requests) {
    request_.method = "POST";
    request_.target = std::string(target);
    request_.body = R"({"model":"m","prompt":"Once upon a time","max_tokens":32,"stream":true})";
    for (std::int64_t i = 0; i < concurrent; ++i) {
      clients_.push_back(std::make_unique<One>(*this));
    }
  }

  RelayFound run() {
    const auto begin = std::chrono::steady_clock::now();
    for (const auto& client : clients_) client->next();
    loop_.run();
    RelayFound found;
    found.seconds = seconds_between(begin, std::chrono::steady_clock::now());
    found.failed = failed_;
    found.delay = {.first_event_us = median(first_us_), .event_us = median(event_us_)};
    return found;
  }

 private:
  struct One final : CallEvents {
    explicit One(Clients& of) : all(of) {}
    void next() {
      if (all.left_ == 0) {
        if (all.running_ == 0) all.loop_.stop();
        return;
      }
      --all.left_;
      ++all.running_;
      tail.clear();
      first = true;
      begin = std::chrono::steady_clock::now();
      call = all.client_.call(all.address_, all.request_,
                              {.connect = kPatience, .first_byte = kPatience, .between = kPatience},
                              *this);
    }
    void on_head(const CallHead&) override {}
    void on_bytes(std::string_view bytes) override {
      if (std::exchange(first, false)) {
        all.first_us_.push_back(seconds_between(begin, std::chrono::steady_clock::now()) * 1e6);
      }
      if (const std::size_t at = bytes.rfind(kMadeAt); at != std::string_view::npos) {
        std::int64_t made_ns = 0;
        const std::string_view digits = bytes.substr(at + kMadeAt.size());
        std::from_chars(digits.data(), digits.data() + digits.size(), made_ns);
        all.event_us_.push_back(static_cast<double>(now_ns() - made_ns) * 1e-3);
      }
      tail += bytes;
      if (tail.size() > kSseDone.size()) tail.erase(0, tail.size() - kSseDone.size());
    }
    void on_end(CallEnd, std::string_view) override {
      --all.running_;
      if (tail != kSseDone) ++all.failed_;
      // Posted, because the connection becomes free only after this call.
      all.loop_.post([this] { next(); });
    }

    Clients& all;
    std::unique_ptr<HttpCall> call;
    std::string tail;
    bool first = true;
    TimePoint begin{};
  };

  EventLoop loop_;
  HttpClient client_{loop_};
  const HttpAddress address_;
  CallRequest request_;
  std::int64_t left_;
  std::int64_t running_ = 0;
  std::int64_t failed_ = 0;
  std::vector<double> first_us_;
  std::vector<double> event_us_;
  std::vector<std::unique_ptr<One>> clients_;
};

HttpOptions stub_options() {
  HttpOptions options;
  options.host = "127.0.0.1";
  options.max_body_bytes = 1U << 20;
  options.max_connections = 4096;
  options.keep_alive = kPatience;
  options.client_timeout = kPatience;
  options.worker_threads = 1;
  return options;
}

}  // namespace

void run_relay_stub(const RelayLoad& load, int in, int out) {
  log::set_level(log::Level::off);
  Ticker ticker;
  std::array<Stub, 2> stubs{Stub(ticker, 1, load.tokens), Stub(ticker, 2, load.tokens)};
  std::array<int, 2> ports{};
  std::vector<std::unique_ptr<HttpServer>> servers;
  for (std::size_t i = 0; i < stubs.size(); ++i) {
    servers.push_back(std::make_unique<HttpServer>(stub_options(), stubs[i]));
    if (!servers.back()->start()) return;
    ports[i] = servers.back()->port();
  }
  std::atomic<bool> over{false};
  std::thread pace([&] {
    while (!over) {
      std::this_thread::sleep_for(kPace);
      ticker.tick();
    }
  });
  (void)!::write(out, ports.data(), sizeof(ports));
  RelayOrder order;
  while (::read(in, &order, sizeof(order)) == sizeof(order)) {
    const bool direct = std::find(ports.begin(), ports.end(), order.port) != ports.end();
    const RelayFound found =
        Clients(order, direct ? "/v1/relay" : "/v1/completions", load.concurrent).run();
    (void)!::write(out, &found, sizeof(found));
  }
  over = true;
  pace.join();
  for (const auto& server : servers) server->stop();
}

}  // namespace tandem
