// REST over a real engine without sockets: direct calls of the handler, streams read by events.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/log/log.h"
#include "engine/server/api.h"
#include "engine/server/messages/text_codec.h"
#include "engine/tokenizer/jinja/chat_template.h"
#include "tests/support/test_engine.h"

namespace tandem::test {

// Waits for a response whose status is not known at once, because the call is compiled first or
// answered as a whole. The test fails after a minute.
inline HttpResponse settled(HttpResponse response) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (response.deferred) {
    std::shared_ptr<DeferredResponse> deferred = std::move(response.deferred);
    deferred->on_ready([] {});
    while (!deferred->ready()) {
      if (std::chrono::steady_clock::now() > end) {
        ADD_FAILURE() << "no response for a minute";
        return {};
      }
      std::this_thread::yield();
    }
    response = deferred->take();
  }
  return response;
}

// Reads a stream event by event.
class EventReader {
 public:
  explicit EventReader(HttpResponse response) : response_(settled(std::move(response))) {
    if (response_.source) response_.source->on_ready([this] { wake(); });
  }
  ~EventReader() { response_.source.reset(); }  // destroyed before what it wakes
  EventReader(const EventReader&) = delete;
  EventReader& operator=(const EventReader&) = delete;

  int status() const { return response_.status; }
  const std::string& body() const { return response_.body; }

  // Returns the next event with its comments, up to the empty line; empty: the stream has ended.
  // The test fails after a minute without an event.
  std::string next() {
    while (true) {
      const std::size_t end = buffer_.find("\n\n");
      if (end != std::string::npos) {
        std::string event = buffer_.substr(0, end + 2);
        buffer_.erase(0, end + 2);
        return event;
      }
      if (ended_ || !response_.source) return {};
      woken_ = false;
      const BodySource::Pull pull = response_.source->pull(buffer_);
      if (pull == BodySource::Pull::end || pull == BodySource::Pull::broken) ended_ = true;
      if (pull != BodySource::Pull::wait) continue;
      std::unique_lock lock(mutex_);
      if (!changed_.wait_for(lock, std::chrono::minutes(1), [&] { return woken_.load(); })) {
        ADD_FAILURE() << "no event for a minute";
        ended_ = true;
      }
    }
  }
  std::vector<std::string> rest() {
    std::vector<std::string> events;
    for (std::string event = next(); !event.empty(); event = next()) {
      events.push_back(std::move(event));
    }
    return events;
  }

 private:
  void wake() {
    {
      const std::lock_guard lock(mutex_);
      woken_ = true;
    }
    changed_.notify_one();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<bool> woken_ = false;
  std::string buffer_;
  bool ended_ = false;
  HttpResponse response_;
};

// An engine of the demo model, and calls to it.
struct RestEngine {
  explicit RestEngine(EngineOptions options = small_engine_options(256),
                      const std::string& dir = "data/demo-llama")
      : engine(TestEngine::load(dir, DType::f32, options)),
        chat_templates(ChatTemplates::load(dir).value()),
        text(make_text_codec(*engine->tokenizer, chat_templates.get())) {
    log::set_level(log::Level::off);
    api = std::make_unique<Api>(ServerOptions{});
    ServedModel model{"base",     "/models/base",    options.max_model_len, 8, engine->engine.get(),
                      text.get(), ToolFormat::hermes};
    model.base_identity = "b1";
    model.adapter_digest = [this](const std::string& name, std::span<const AdapterPart>) {
      const AdapterLease adapter = engine->engine->adapter_store().find(name);
      return adapter == nullptr
                 ? nullptr
                 : std::shared_ptr<const std::string>(adapter, &adapter->contents().digest);
    };
    api->attach(std::move(model));
  }

  HttpResponse post(const std::string& path, const nlohmann::json& body,
                    std::map<std::string, std::string> headers = {}) {
    HttpRequest request;
    request.headers = std::move(headers);
    request.method = "POST";
    request.path = path;
    request.has_body = true;
    request.body = body.dump();
    return api->handle(request);
  }
  HttpResponse get(const std::string& path, const std::string& query = "") {
    HttpRequest request;
    request.method = "GET";
    request.path = path;
    request.query = query;
    return api->handle(request);
  }

  std::unique_ptr<TestEngine> engine;
  std::unique_ptr<ChatTemplates> chat_templates;
  std::unique_ptr<TextCodec> text;
  std::unique_ptr<Api> api;  // last, to be destroyed before what it serves
};

}  // namespace tandem::test
