// Listens to one engine's /v1/stats?watch=1, whose events are also its heartbeat.
//
//   asking -> listening -> (asking again at once, when the connection breaks)
//      ^___________| late, malformed, refused, or broken twice: lost, and asked again a little
//      later
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/http/client/http_client.h"
#include "base/status.h"
#include "scheduler/cluster/report/engine_report.h"

namespace tandem {

struct WatchTimes {
  Duration connect = std::chrono::seconds(1);
  // An engine without an event for so long is lost: it sends one every half second.
  Duration heartbeat = std::chrono::seconds(2);
  Duration retry = std::chrono::milliseconds(250);  // between attempts to listen to a lost one
};

// On the loop's thread.
class StatsWatch final : public CallEvents {
 public:
  struct Listener {
    // `first`: the report is complete, else it has only the adapters that changed. An error rejects
    // the report, and the engine is lost.
    std::function<Status(EngineReport report, bool first)> reported;
    // Called once for each loss, not while the engine is lost already.
    std::function<void(const std::string& why)> lost;
  };

  StatsWatch(EventLoop& loop, HttpClient& client, HttpAddress address, CallRequest request,
             WatchTimes times, Listener listener);
  ~StatsWatch() override;

  void begin();

 private:
  void ask();
  void again(bool lose, const std::string& why);
  bool take_event(std::string_view event);  // false: the connection was ended

  void on_head(const CallHead& head) override;
  void on_bytes(std::string_view bytes) override;
  void on_end(CallEnd end, std::string_view reason) override;

  HttpClient& client_;
  const HttpAddress address_;
  const CallRequest request_;
  const WatchTimes times_;
  const Listener listener_;
  LoopTimer retry_;
  std::unique_ptr<HttpCall> call_;
  std::string received_;  // bytes of an unfinished event
  bool first_ = true;
  std::uint64_t seq_ = 0;
  bool heard_ = false;  // an event came on this connection
  bool lost_ = false;
};

// Returns the request of a StatsWatch.
CallRequest watch_request(const std::string& api_key);

}  // namespace tandem
