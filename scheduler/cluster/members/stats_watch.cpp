#include "scheduler/cluster/members/stats_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace tandem {
namespace {

constexpr std::string_view kEndOfEvent = "\n\n";
constexpr std::string_view kData = "data: ";
constexpr int kStatusOk = 200;
// Not zero: an engine that sends an event and breaks, over and over, must not keep the loop busy.
constexpr Duration kAtOnce = std::chrono::milliseconds(10);

}  // namespace

CallRequest watch_request(const std::string& api_key) {
  CallRequest request;
  request.target = "/v1/stats?watch=1";
  if (!api_key.empty()) request.headers.emplace_back("Authorization", "Bearer " + api_key);
  return request;
}

StatsWatch::StatsWatch(EventLoop& loop, HttpClient& client, HttpAddress address,
                       CallRequest request, WatchTimes times, Listener listener)
    : client_(client),
      address_(std::move(address)),
      request_(std::move(request)),
      times_(times),
      listener_(std::move(listener)),
      retry_(loop, [this] { ask(); }) {}

StatsWatch::~StatsWatch() = default;

void StatsWatch::begin() {
  ask();
}

void StatsWatch::ask() {
  received_.clear();
  first_ = true;
  heard_ = false;
  call_ = client_.call(
      address_, request_,
      {.connect = times_.connect, .first_byte = times_.heartbeat, .between = times_.heartbeat},
      *this);
}

// A connection that broke after an event is made again at once; the engine is lost only if that
// fails.
void StatsWatch::again(bool lose, const std::string& why) {
  const bool at_once = !lose && heard_;
  call_.reset();
  if (!at_once && !lost_) {
    lost_ = true;
    listener_.lost(why);
  }
  retry_.start(at_once ? kAtOnce : times_.retry);
}

void StatsWatch::on_head(const CallHead& head) {
  if (head.status != kStatusOk) {
    again(true, fmt::format("/v1/stats answered {}", head.status));
  } else if (!head.header("content-type").starts_with("text/event-stream")) {
    again(true, "its /v1/stats?watch=1 is not a stream of events");
  }
}

void StatsWatch::on_bytes(std::string_view bytes) {
  const std::size_t searched = received_.empty() ? 0 : received_.size() - 1;
  received_ += bytes;
  std::size_t begin = 0;
  for (;;) {
    const std::size_t end = received_.find(kEndOfEvent, std::max(begin, searched));
    if (end == std::string::npos) break;
    // After a failure the other bytes received are not used.
    if (!take_event(std::string_view(received_).substr(begin, end - begin))) return;
    begin = end + kEndOfEvent.size();
  }
  received_.erase(0, begin);
  if (received_.size() > kMaxReportBytes) again(true, "an event of its statistics has no end");
}

bool StatsWatch::take_event(std::string_view event) {
  if (!event.starts_with(kData)) return true;  // a comment
  event.remove_prefix(kData.size());
  Result<EngineReport> report = read_report(event);
  if (!report) {
    again(true, report.status().message());
    return false;
  }
  if (!first_ && report->seq != seq_ + 1) {
    again(false, "its statistics lack an event");
    return false;
  }
  seq_ = report->seq;
  if (const Status taken = listener_.reported(std::move(*report), first_); !taken) {
    again(true, taken.message());
    return false;
  }
  first_ = false;
  heard_ = true;
  lost_ = false;
  return true;
}

void StatsWatch::on_end(CallEnd end, std::string_view reason) {
  switch (end) {
    case CallEnd::complete:
      return again(false, "it ended its statistics");
    case CallEnd::broken:
      return again(false, fmt::format("the connection broke: {}", reason));
    case CallEnd::unreachable:
      return again(true, fmt::format("it cannot be reached: {}", reason));
    case CallEnd::late:
      return again(true, "it sent nothing for too long");
    case CallEnd::malformed:
      return again(true, fmt::format("its answer is not HTTP: {}", reason));
  }
}

}  // namespace tandem
