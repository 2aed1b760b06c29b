// One request of a client on its way: to an engine, and when that one fails it, to another.
//
//   placing -> asking -> answering -> over
//      ^__________|__________| the engine broke, moved it, refused it for want of room, or stalled
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/http/client/http_client.h"
#include "scheduler/cluster/cluster.h"
#include "scheduler/router/answer_channel.h"
#include "scheduler/router/client_call.h"
#include "scheduler/router/stream_ledger.h"

namespace tandem {

struct RouteLimits {
  std::size_t max_queue = 1024;                             // requests that wait before the engines
  Duration queue_timeout = std::chrono::seconds(10);        // and for how long each
  Duration first_report_timeout = std::chrono::seconds(2);  // of the engines, after the start
  Duration connect_timeout = std::chrono::seconds(2);
  Duration first_byte_timeout = std::chrono::seconds(120);
  Duration stall_timeout = std::chrono::seconds(20);    // between two pieces of a stream
  Duration answer_timeout = std::chrono::seconds(600);  // of one that is no stream
  std::int32_t max_attempts = 6;
  Duration recover_timeout = std::chrono::seconds(30);  // from a failure to the next engine
  // Of an answer that is no stream: as long as its head says, or without saying so.
  std::size_t max_answer_bytes = 256U << 20;
  std::size_t max_unannounced_bytes = 32U << 20;
  // For an engine to be back that has just been heard, if there is no other.
  Duration lost_patience = std::chrono::seconds(3);
};

class RoutedCall;

// One run of an engine's process, which may have ended.
struct EngineRun {
  EngineIndex engine;
  std::string id;  // that it told last
  std::string address;
  TimePoint lost_at{};
};

// How a call ended, for the metrics.
enum class Outcome { served, refused, failed, gone };

// What a call needs of the router. On the loop's thread.
class CallHost {
 public:
  virtual ~CallHost() = default;
  virtual const RouteLimits& limits() const = 0;
  virtual TimePoint now() const = 0;
  virtual std::unique_ptr<HttpCall> ask(EngineIndex engine, const CallRequest& request,
                                        const CallDeadlines& deadlines, CallEvents& events) = 0;
  // The engine did not do it; `doubted`: it is unlikely to do another.
  virtual void engine_failed(RoutedCall& call, std::string_view why, bool doubted) = 0;
  virtual EngineRun run_of(EngineIndex engine) const = 0;
  // It has reported since it was lost: the process had not ended.
  virtual bool lives(const EngineRun& run) const = 0;
  // After a move, the client has been told more: it was told nothing for so long.
  virtual void went_on(double silent_s) = 0;
  // It wants another engine.
  virtual void place_again(RoutedCall& call) = 0;
  // The last call from it; it is destroyed afterwards, not at once.
  virtual void over(RoutedCall& call, Outcome outcome) = 0;
};

// On the loop's thread.
class RoutedCall final : public CallEvents {
 public:
  RoutedCall(CallHost& host, ClientCall call, std::shared_ptr<AnswerChannel> channel);
  ~RoutedCall() override;

  // From the host: it has a place.
  void go(EngineIndex engine, SentId sent);
  // Its engine is lost.
  void engine_lost(std::string_view why);
  // It leaves the engine that it is with, for another that has nothing to do with a failure; go()
  // is to follow. False: nothing but the end of the stream was missing, and it is over.
  bool leave_for_another();
  // No engine took it: what is said instead, if it has not begun.
  void refuse(const ErrorEnvelope& error);
  void client_gone();
  void client_drained();

  const ClientCall& call() const { return call_; }
  const Wanted& wanted() const { return wanted_; }
  Wanted& wanted() { return wanted_; }
  bool began() const { return began_; }  // the client has been told something
  // It was tried, and waits for another engine.
  bool recovering() const { return tried_; }
  // A stream that is with an engine, and not at its end.
  bool can_move() const { return ledger_ && engine_.valid() && !told_all_ && !over_; }
  std::optional<TimePoint> first_told_at() const { return first_told_at_; }  // of a stream's tokens
  std::optional<TimePoint> moved_at() const { return moved_at_; }            // the last time
  EngineIndex engine() const { return engine_; }                             // not valid: none now
  SentId sent() const { return sent_; }
  TimePoint came_at() const { return came_at_; }
  std::int32_t engines_asked() const { return engines_asked_; }  // one as often as it was asked
  TimePoint waiting_since() const { return waiting_since_; }
  std::size_t num_tokens() const { return ledger_ ? ledger_->num_tokens() : 0; }

 private:
  enum class Kind { stream, whole, error };  // what the engine answers

  void on_head(const CallHead& head) override;
  void on_bytes(std::string_view bytes) override;
  void on_end(CallEnd end, std::string_view reason) override;

  void take_stream(std::string_view bytes);
  void take_whole(std::string_view bytes);
  void finish_whole();
  void finish_error();
  enum class Loss {
    none,     // it did not do this one
    doubted,  // it is unlikely to do another
    lost,     // it may have died of this one, and is doubted, too
  };
  void again(std::string_view why, Loss loss);
  bool is_second_loss(EngineRun run);
  bool leave();
  void give_up(std::string_view why);
  std::vector<std::pair<std::string, std::string>> headers_now() const;
  void end_attempt();
  void say(HttpResponse response);
  void end(Outcome outcome);

  CallHost& host_;
  const ClientCall call_;
  Wanted wanted_;
  const std::shared_ptr<AnswerChannel> channel_;
  std::optional<StreamLedger> ledger_;  // of a stream
  std::unique_ptr<HttpCall> http_;
  EngineIndex engine_;
  SentId sent_ = 0;
  const TimePoint came_at_;
  TraceContext attempt_;  // of its engine; not valid: none is traced
  TimePoint asked_at_{};  // the engine that has it
  TimePoint waiting_since_{};
  std::int32_t attempts_ = 0;  // since something was told
  std::int32_t engines_asked_ = 0;
  std::size_t tokens_before_ = 0;  // the last attempt
  bool tried_ = false;
  std::optional<EngineRun> lost_;  // the last engine that was lost while it had the request
  Kind kind_ = Kind::whole;
  CallHead head_;
  std::string body_;    // that is not passed on as it comes
  std::string passed_;  // what is, of this turn
  std::optional<TimePoint> first_told_at_;
  std::size_t silent_choice_ = 0;  // of which the channel says nothing when it is silent
  std::optional<TimePoint> moved_at_;
  bool silent_ = false;  // since then
  bool began_ = false;
  bool told_all_ = false;  // of a stream
  bool over_ = false;
};

}  // namespace tandem
