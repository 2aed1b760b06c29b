// An engine that speaks the router's contract and computes nothing: token i of choice c is a hash
// of the seed, c and i. It does what a script says: dies, stalls, gives away, refuses, lies.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "base/http/http_server.h"

namespace tandem {

// What a stream does after so many tokens of all its choices; below zero: never.
struct StubScript {
  int break_at = -1;          // the connection
  bool within_event = false;  // with half an event sent
  int stall_at = -1;          // says nothing more; what is no stream is never answered
  int move_at = -1;           // ":moved"
  int error_at = -1;          // an event that says it is the engine's fault
  int status = 0;             // answers this instead; 0: serves
  bool endless = false;       // what is no stream never ends
  std::string reason = "as the script says";
};

struct StubAdapter {
  std::string name;
  int rank = 8;
  std::string tier = "resident";
  std::string digest = "";
};

class StubEngine final : public HttpHandler {
 public:
  explicit StubEngine(std::string id, std::vector<StubAdapter> adapters = {}, int port = 0);
  ~StubEngine() override;

  int port() const { return server_->port(); }
  std::string url() const;
  void kill();  // as kill -9: every connection breaks, none is taken
  void set_script(StubScript script);
  void set_accepts(bool accepts);
  // Members of its statistics that are something else than true.
  void set_lie(nlohmann::json lie);
  // Its base's identity; it tells and checks weights from now on.
  void set_base(std::string base);
  void set_silent(bool silent);                 // no heartbeat
  int relays() const { return relays_; }        // calls of /v1/relay
  int continued() const { return continued_; }  // of them with "sent"
  int cancelled() const { return cancelled_; }  // streams that were let go before their end
  nlohmann::json last_request() const;          // the wrapper

  std::optional<HttpResponse> screen(const HttpRequest&) override { return std::nullopt; }
  HttpResponse handle(const HttpRequest& request) override;
  HttpResponse refuse(int status, std::string_view reason) override;

 private:
  class Watch;
  class Stream;
  HttpResponse relay(const HttpRequest& request);
  std::string event(std::uint64_t seq) const;
  nlohmann::json weights_for(const nlohmann::json& wrapper) const;
  void beat();
  void news();

  const std::string id_;
  const std::vector<StubAdapter> adapters_;
  std::unique_ptr<HttpServer> server_;
  std::atomic<int> relays_{0};
  std::atomic<int> continued_{0};
  std::atomic<int> cancelled_{0};
  mutable std::mutex mutex_;  // guards the rest
  std::condition_variable changed_;
  StubScript script_;
  nlohmann::json lie_ = nlohmann::json::object();
  nlohmann::json last_request_;
  std::string base_;
  bool accepts_ = true;
  bool silent_ = false;
  bool stopping_ = false;
  std::uint64_t version_ = 1;  // of what the statistics say
  std::vector<Watch*> watches_;
  std::thread heart_;
};

// Waits until it holds; false: ten seconds were too short.
bool eventually(const std::function<bool()>& holds);

}  // namespace tandem
