// An OpenTelemetry collector for tests: records what it receives, and answers as scripted.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/http/http_server.h"

namespace tandem {

class StubCollector final : public HttpHandler {
 public:
  explicit StubCollector(int port = 0) {
    HttpOptions options;
    options.host = "127.0.0.1";
    options.port = port;
    options.max_body_bytes = 16U << 20;
    options.max_connections = 16;
    options.keep_alive = std::chrono::seconds(30);
    options.client_timeout = std::chrono::seconds(30);
    server_ = std::make_unique<HttpServer>(options, *this);
    const Status started = server_->start();
    EXPECT_TRUE(started.ok()) << started.message();
  }
  ~StubCollector() override { server_.reset(); }

  std::string url() const { return "http://127.0.0.1:" + std::to_string(server_->port()); }
  int port() const { return server_->port(); }
  void answer(int status) {
    const std::lock_guard lock(mutex_);
    status_ = status;
  }
  int calls() {
    const std::lock_guard lock(mutex_);
    return calls_;
  }
  // All spans received so far, each with its "service"; waits until `enough` returns true.
  std::vector<nlohmann::json> spans(
      const std::function<bool(const std::vector<nlohmann::json>&)>& enough) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(20), [&] { return enough(spans_); });
    return spans_;
  }
  bool wait_for_calls(int calls) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20), [&] { return calls_ >= calls; });
  }

  std::optional<HttpResponse> screen(const HttpRequest&) override { return std::nullopt; }
  HttpResponse handle(const HttpRequest& request) override {
    const std::lock_guard lock(mutex_);
    ++calls_;
    HttpResponse response;
    response.status = request.path == "/v1/traces" && request.method == "POST" ? status_ : 404;
    response.body = "{}";
    if (response.status == 200) take(request.body);
    changed_.notify_all();
    return response;
  }
  HttpResponse refuse(int status, std::string_view) override {
    HttpResponse response;
    response.status = status;
    return response;
  }

 private:
  void take(const std::string& body) {
    const auto sent = nlohmann::json::parse(body);
    for (const auto& resource : sent.at("resourceSpans")) {
      const auto& attributes = resource.at("resource").at("attributes");
      for (const auto& scope : resource.at("scopeSpans")) {
        for (auto span : scope.at("spans")) {
          span["service"] = attributes.at(0).at("value").at("stringValue");
          spans_.push_back(std::move(span));
        }
      }
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  int status_ = 200;  // guarded by mutex_, as are the fields below
  int calls_ = 0;
  std::vector<nlohmann::json> spans_;
  std::unique_ptr<HttpServer> server_;
};

}  // namespace tandem
