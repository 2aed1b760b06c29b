// Listens to one engine: /v1/stats?watch=1, whose events are its heartbeat, too.
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
#include "scheduler/report/engine_report.h"

namespace tandem {

struct WatchTimes {
  Duration connect = std::chrono::seconds(1);
  // Without an event for so long an engine is lost: it has one to send every half second.
  Duration heartbeat = std::chrono::seconds(2);
  Duration retry = std::chrono::milliseconds(250);  // between attempts to listen to a lost one
};

// On the loop's thread.
class StatsWatch final : public CallEvents {
 public:
  struct Listener {
    // `first`: the report is whole, else adapters are those that changed. A failure: the report is
    // not believed, and the engine lost.
    std::function<Status(EngineReport report, bool first)> reported;
    // Once for each time; not while it is lost already.
    std::function<void(const std::string& why)> lost;
  };

  StatsWatch(EventLoop& loop, HttpClient& client, HttpAddress address, CallRequest request,
             WatchTimes times, Listener listener);
  ~StatsWatch() override;

  void begin();

 private:
  void ask();
  void again(bool lose, const std::string& why);
  bool take_event(std::string_view event);  // false: it was the last

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
  std::string received_;  // of the event that is not whole yet
  bool first_ = true;
  std::uint64_t seq_ = 0;
  bool heard_ = false;  // of this connection, an event
  bool lost_ = false;
};

// The request of such a watch.
CallRequest watch_request(const std::string& api_key);

}  // namespace tandem
