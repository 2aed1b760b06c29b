// Stands in for an engine as its peers see it: it serves the two files of one adapter, and the test
// decides when the last byte of the weights is sent.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/file/file.h"
#include "base/http/client/http_address.h"
#include "base/http/http_server.h"

namespace tandem::testing {

// Makes a server that answers like an engine in a test. `handler` must outlive it.
inline std::unique_ptr<HttpServer> serve_peer(HttpHandler& handler) {
  HttpOptions options;
  options.host = "127.0.0.1";
  options.max_body_bytes = 1024;
  options.max_connections = 64;
  options.keep_alive = options.client_timeout = std::chrono::seconds(30);
  auto server = std::make_unique<HttpServer>(options, handler);
  EXPECT_TRUE(server->start().ok());
  return server;
}

class FilePeer final : public HttpHandler {
 public:
  // The treatment of the last byte of the weights.
  enum class Last { held, sent, cut_off };

  explicit FilePeer(const std::string& folder, Last last = Last::held)
      : config_(*read_text_file(folder + "/adapter_config.json", 1 << 20)),
        weights_(*read_text_file(folder + "/adapter_model.safetensors", 1 << 30)),
        last_(std::make_shared<State>(last)) {
    server_ = serve_peer(*this);
  }
  ~FilePeer() override { server_.reset(); }
  HttpAddress address() const { return {"127.0.0.1", server_->port()}; }

  // Applies to files that are being sent and to later ones.
  void set_last(Last last) { last_->set(last); }
  bool is_sending() const { return last_->has_reader(); }

  std::optional<HttpResponse> screen(const HttpRequest&) override { return std::nullopt; }
  HttpResponse handle(const HttpRequest& request) override {
    HttpResponse response;
    if (request.path.ends_with("/adapter_config.json")) {
      response.body = config_;
    } else if (request.path.ends_with("/adapter_model.safetensors")) {
      response.source_bytes = weights_.size();
      response.source = std::make_unique<Body>(weights_, last_);
    } else {
      response.status = 404;
    }
    return response;
  }
  HttpResponse refuse(int status, std::string_view) override {
    HttpResponse response;
    response.status = status;
    return response;
  }

 private:
  class State {
   public:
    explicit State(Last last) : last_(last) {}
    void set(Last last) {
      const std::lock_guard lock(mutex_);  // no reader that has gone is woken
      last_ = last;
      if (wake_) wake_();
    }
    void on_ready(std::function<void()> wake) {
      const std::lock_guard lock(mutex_);
      wake_ = std::move(wake);
    }
    bool has_reader() const {
      const std::lock_guard lock(mutex_);
      return wake_ != nullptr;
    }
    Last last() const {
      const std::lock_guard lock(mutex_);
      return last_;
    }

   private:
    mutable std::mutex mutex_;  // guards the members below
    Last last_;
    std::function<void()> wake_;  // of the most recent file
  };

  class Body final : public BodySource {
   public:
    Body(std::string_view text, std::shared_ptr<State> last)
        : text_(text), last_(std::move(last)) {}
    ~Body() override { last_->on_ready(nullptr); }
    void on_ready(std::function<void()> wake) override { last_->on_ready(std::move(wake)); }
    Pull pull(std::string& out) override {
      if (text_.size() > 1) {
        out += text_.substr(0, text_.size() - 1);
        text_ = text_.substr(text_.size() - 1);
      }
      switch (last_->last()) {
        case Last::held:
          return Pull::wait;
        case Last::cut_off:
          return Pull::broken;
        case Last::sent:
          break;
      }
      out += text_;
      return Pull::end;
    }

   private:
    std::string_view text_;  // unsent rest
    const std::shared_ptr<State> last_;
  };

  const std::string config_;
  const std::string weights_;
  const std::shared_ptr<State> last_;
  std::unique_ptr<HttpServer> server_;
};

}  // namespace tandem::testing
