// An engine that follows the router's protocol without computing: token i of choice c is a hash of
// the seed, c and i. A script makes it die, stall, hand over, refuse or lie.
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

// Faults of a stream after so many tokens of all choices; negative: never.
struct StubScript {
  int break_at = -1;          // the connection breaks
  bool within_event = false;  // it breaks in the middle of an event
  int stall_at = -1;          // the stream stops; an answer that is no stream never comes
  int move_at = -1;           // the engine sends ":moved"
  int error_at = -1;          // an event with an error of the engine
  int status = 0;             // this status is answered instead; 0: serves
  bool endless = false;       // an answer that is no stream never ends
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
  void kill();  // like kill -9: all connections break and none is accepted
  void set_script(StubScript script);
  void set_accepts(bool accepts);
  // Members of its statistics that replace the true ones.
  void set_lie(nlohmann::json lie);
  // Sets its base's identity, and makes it send and check weights from now on.
  void set_base(std::string base);
  void set_silent(bool silent);                 // stops the heartbeat
  int relays() const { return relays_; }        // number of calls of /v1/relay
  int continued() const { return continued_; }  // number of these with "sent"
  int cancelled() const { return cancelled_; }  // number of streams that were cancelled
  nlohmann::json last_request() const;          // with its wrapper

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
  std::uint64_t version_ = 1;  // version of the statistics
  std::vector<Watch*> watches_;
  std::thread heart_;
};

// Waits until it holds; returns false after ten seconds.
bool eventually(const std::function<bool()>& holds);

}  // namespace tandem
