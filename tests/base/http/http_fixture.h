// A running HttpServer with a handler that the test scripts.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/http/http_server.h"
#include "base/log/log.h"
#include "tests/base/http/test_client.h"

namespace tandem {

// The test's end of a streamed body or a deferred response.
class Feed {
 public:
  void say(std::string_view bytes) {
    change([&] { data_ += bytes; });
  }
  void end() {
    change([&] { end_ = BodySource::Pull::end; });
  }
  void break_off() {
    change([&] { end_ = BodySource::Pull::broken; });
  }
  // Returns when the server has dropped it; the client's time-outs limit a test that never ends.
  bool wait_dropped() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(30), [&] { return dropped_; });
  }
  bool dropped() {
    const std::lock_guard lock(mutex_);
    return dropped_;
  }
  std::size_t pulled() {
    const std::lock_guard lock(mutex_);
    return pulled_;
  }
  std::size_t endless = 0;  // bytes of each pull, endlessly

  // The server's end of the feed.
  void on_ready(std::function<void()> wake) {
    const std::lock_guard lock(wake_mutex_);
    wake_ = std::move(wake);
  }
  BodySource::Pull pull(std::string& out) {
    const std::lock_guard lock(mutex_);
    if (endless > 0) {
      pulled_ += endless;
      out.append(endless, 'x');
      return BodySource::Pull::more;
    }
    pulled_ += data_.size();
    out += data_;
    data_.clear();
    return end_;
  }
  void drop() {
    on_ready({});
    {
      const std::lock_guard lock(mutex_);
      dropped_ = true;
    }
    changed_.notify_all();
  }

 private:
  template <typename Change>
  void change(Change&& make) {
    {
      const std::lock_guard lock(mutex_);
      make();
    }
    const std::lock_guard lock(wake_mutex_);
    if (wake_) wake_();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::string data_;
  BodySource::Pull end_ = BodySource::Pull::wait;
  std::size_t pulled_ = 0;
  bool dropped_ = false;
  std::mutex wake_mutex_;
  std::function<void()> wake_;
};

class FeedSource final : public BodySource {
 public:
  explicit FeedSource(std::shared_ptr<Feed> feed) : feed_(std::move(feed)) {}
  ~FeedSource() override { feed_->drop(); }
  void on_ready(std::function<void()> wake) override { feed_->on_ready(std::move(wake)); }
  Pull pull(std::string& out) override { return feed_->pull(out); }
  std::string on_silence() override { return "(silence)"; }
  std::string_view filler() const override { return " "; }

 private:
  std::shared_ptr<Feed> feed_;
};

class FeedDeferred final : public DeferredResponse {
 public:
  explicit FeedDeferred(std::shared_ptr<Feed> feed) : feed_(std::move(feed)) {}
  ~FeedDeferred() override { feed_->drop(); }
  void on_ready(std::function<void()> wake) override { feed_->on_ready(std::move(wake)); }
  bool ready() override { return feed_->pull(body_) != BodySource::Pull::wait; }
  HttpResponse take() override {
    HttpResponse response;
    response.body = body_;
    return response;
  }

 private:
  std::shared_ptr<Feed> feed_;
  std::string body_;
};

// Used by /throw-in-pull and /throw-in-take.
class Thrower final : public BodySource, public DeferredResponse {
 public:
  void on_ready(std::function<void()>) override {}
  Pull pull(std::string&) override { throw std::bad_alloc(); }
  bool ready() override { return true; }
  HttpResponse take() override { throw std::bad_alloc(); }
};

// /echo returns the body; /stream and /defer return a feed; /sized returns a feed of four bytes;
// /throw throws; /refused is refused after the head alone. Everything else returns "ok".
class TinyHandler final : public HttpHandler {
 public:
  std::optional<HttpResponse> screen(const HttpRequest& request) override {
    if (request.path == "/throw-in-screen") throw std::bad_alloc();
    if (request.path != "/refused") return std::nullopt;
    return text(403, "not for you");
  }
  HttpResponse handle(const HttpRequest& request) override {
    seen(request.path);
    if (on_call) on_call(request);
    HttpResponse response = text(200, request.path == "/echo" ? request.body : "ok");
    if (request.path == "/stream") response.source = std::make_unique<FeedSource>(add_feed());
    if (request.path == "/sized") {
      response.source = std::make_unique<FeedSource>(add_feed());
      response.source_bytes = 4;
    }
    if (request.path == "/defer") response.deferred = std::make_unique<FeedDeferred>(add_feed());
    if (request.path == "/throw-in-pull") response.source = std::make_unique<Thrower>();
    if (request.path == "/throw-in-take") response.deferred = std::make_unique<Thrower>();
    if (request.path == "/throw") throw std::runtime_error("as asked");
    return response;
  }
  bool at_once(const HttpRequest& request) override { return request.path == "/probe"; }
  bool slow(const HttpRequest& request) override { return request.path == "/slow"; }
  HttpResponse refuse(int status, std::string_view reason) override {
    HttpResponse response = text(status, std::string(reason));
    if (status == 503) response.headers.emplace_back("Retry-After", "2");
    return response;
  }
  void finish(const HttpRequest& request, HttpResponse& response) override {
    response.headers.emplace_back("X-Path", request.path);
  }

  // The i-th feed, once it exists.
  std::shared_ptr<Feed> feed(std::size_t i) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(30), [&] { return feeds_.size() > i; });
    return feeds_.at(i);
  }
  int calls_of(const std::string& path) {
    const std::lock_guard lock(mutex_);
    return calls_[path];
  }
  bool wait_for_call(const std::string& path) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(30), [&] { return calls_[path] > 0; });
  }

  std::function<void(const HttpRequest&)> on_call;
  std::size_t endless = 0;  // for new feeds

 private:
  static HttpResponse text(int status, std::string body) {
    HttpResponse response;
    response.status = status;
    response.content_type = "text/plain";
    response.body = std::move(body);
    return response;
  }
  std::shared_ptr<Feed> add_feed() {
    auto feed = std::make_shared<Feed>();
    feed->endless = endless;
    const std::lock_guard lock(mutex_);
    feeds_.push_back(feed);
    changed_.notify_all();
    return feed;
  }
  void seen(const std::string& path) {
    const std::lock_guard lock(mutex_);
    ++calls_[path];
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, int> calls_;
  std::vector<std::shared_ptr<Feed>> feeds_;
};

class HttpTest : public ::testing::Test {
 protected:
  void SetUp() override {
    log::set_level(log::Level::off);
    options.host = "127.0.0.1";
    options.max_body_bytes = 1U << 20;
    options.max_connections = 4096;
    options.keep_alive = std::chrono::seconds(30);
    options.client_timeout = std::chrono::seconds(30);
  }
  void TearDown() override { server.reset(); }

  void start() {
    server = std::make_unique<HttpServer>(options, handler);
    const Status status = server->start();
    ASSERT_TRUE(status.ok()) << status.message();
    port = server->port();
  }

  HttpOptions options;
  TinyHandler handler;
  std::unique_ptr<HttpServer> server;
  int port = 0;
};

// A request with a custom head.
inline std::string get_request(std::string_view path) {
  return http_request("GET", path);
}

}  // namespace tandem
