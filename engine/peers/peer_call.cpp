#include "engine/peers/peer_call.h"

#include <exception>
#include <memory>
#include <optional>
#include <utility>

#include "base/parse_number.h"

namespace tandem {
namespace {

constexpr int kOk = 200;

// The event loop would swallow an exception and continue the call as if the sink had succeeded.
template <typename Step>
Status without_exceptions(const Step& step) {
  try {
    return step();
  } catch (const std::exception&) {
    return {StatusCode::unavailable, "out of memory"};
  }
}

// Runs on the loop's thread, which serves nothing else: a slow sink holds up the connection, and so
// throttles the peer.
class FileCall final : public CallEvents {
 public:
  FileCall(EventLoop& loop, const PeerSink& sink, const PeerTimes& times)
      : loop_(loop), sink_(sink), times_(times), span_(loop, [this] { end_span(); }) {}

  void on_head(const CallHead& head) override {
    if (head.status != kOk) return end(refusal(head.status));
    if (!head.header("content-encoding").empty()) {
      return end(PeerAnswer::failed(invalid("it answers in an encoding that was not asked for")));
    }
    std::uint64_t bytes = sink_.max_bytes;
    const std::string_view length = head.header("content-length");
    if (!length.empty()) {
      const auto announced = parse_number<std::uint64_t>(length);
      if (!announced) return end(PeerAnswer::failed(invalid("its Content-Length is no number")));
      bytes = *announced;
    }
    if (bytes > sink_.max_bytes) return end(too_much());
    span_.start(times_.span);
    if (!sink_.begin) return;
    Status begun = without_exceptions([&] { return sink_.begin(bytes, !length.empty()); });
    if (!begun) {
      const bool too_large = begun.code() == StatusCode::resource_exhausted;
      end({too_large ? PeerAnswer::Kind::failed : PeerAnswer::Kind::ours, std::move(begun)});
    }
  }

  void on_bytes(std::string_view bytes) override {
    if (answer_) return;  // bytes that came with the head that ended the call
    if (bytes.size() > sink_.max_bytes - taken_) return end(too_much());
    taken_ += bytes.size();
    Status taken = without_exceptions([&] { return sink_.take(bytes); });
    if (!taken) end(PeerAnswer::ours(std::move(taken)));
  }

  void on_end(CallEnd how, std::string_view reason) override {
    switch (how) {
      case CallEnd::complete:
        return end({});
      case CallEnd::unreachable:
        return end(failure("cannot be reached", reason));
      case CallEnd::broken:
        return end(failure("broke off", reason));
      case CallEnd::late:
        return end(
            PeerAnswer::failed(error(StatusCode::unavailable, "it was silent for too long")));
      case CallEnd::malformed:
        return end(failure("answers no HTTP", reason));
    }
  }

  void end(PeerAnswer answer) {
    if (!answer_) answer_ = std::move(answer);
    loop_.stop();
  }
  static PeerAnswer too_slow() {
    return PeerAnswer::failed(error(StatusCode::unavailable, "it is too slow"));
  }
  std::optional<PeerAnswer> answer() { return std::move(answer_); }

 private:
  void end_span() {
    if (taken_ - taken_before_ < times_.bytes_per_span) return end(too_slow());
    taken_before_ = taken_;
    span_.start(times_.span);
  }
  static PeerAnswer failure(const char* what, std::string_view reason) {
    return PeerAnswer::failed(error(StatusCode::unavailable, "it {}: {}", what, reason));
  }
  PeerAnswer too_much() const {
    return PeerAnswer::failed(
        invalid("its file has more than the {} bytes that are taken of it", sink_.max_bytes));
  }
  static PeerAnswer refusal(int status) {
    switch (status) {
      case 404:
        return {PeerAnswer::Kind::lacks};
      case 429:
      case 503:
        return {PeerAnswer::Kind::busy,
                error(StatusCode::unavailable, "it is overloaded, starting or shutting down")};
      case 401:
      case 403:
        return PeerAnswer::failed(
            error(StatusCode::permission_denied,
                  "it does not take this engine's API key: give all engines the same"));
      default:
        return PeerAnswer::failed(error(StatusCode::unavailable, "it answers {}", status));
    }
  }

  EventLoop& loop_;
  const PeerSink& sink_;
  const PeerTimes& times_;
  LoopTimer span_;
  std::uint64_t taken_ = 0;
  std::uint64_t taken_before_ = 0;  // in the current span
  std::optional<PeerAnswer> answer_;
};

PeerAnswer ending() {
  return PeerAnswer::ours(error(StatusCode::unavailable, "this server is shutting down"));
}

}  // namespace

// Makes the loop available to stop() during the call, also when an exception ends it.
struct PeerStop::Running {
  Running(PeerStop& stop, EventLoop& loop) : of(stop) {
    const std::lock_guard lock(of.mutex_);
    is_stopped = of.stopped_;
    of.running_ = &loop;
  }
  ~Running() {
    const std::lock_guard lock(of.mutex_);
    of.running_ = nullptr;
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  PeerStop& of;
  bool is_stopped = false;
};

void PeerStop::stop() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  if (running_ != nullptr) running_->stop();
}

PeerAnswer call_peer(const HttpAddress& peer, const std::string& target, const std::string& api_key,
                     const PeerTimes& times, const PeerSink& sink, PeerStop& stop) {
  EventLoop loop;
  HttpClient client(loop, 0);
  FileCall events(loop, sink, times);
  CallRequest request;
  request.target = target;
  if (!api_key.empty()) request.headers.emplace_back("Authorization", "Bearer " + api_key);
  LoopTimer longest(loop, [&] { events.end(FileCall::too_slow()); });
  longest.start(times.longest + std::chrono::seconds(sink.max_bytes / times.bytes_per_s));
  {
    const PeerStop::Running running(stop, loop);
    if (running.is_stopped) return ending();
    const auto call = client.call(peer, request, times.deadlines, events);
    loop.run();
  }
  return events.answer().value_or(ending());
}

}  // namespace tandem
