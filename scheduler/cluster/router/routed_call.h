// One request of a client, sent to an engine and, when that one fails, to another.
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
#include "scheduler/cluster/members/cluster.h"
#include "scheduler/cluster/router/answer_channel.h"
#include "scheduler/cluster/router/client_call.h"
#include "scheduler/cluster/router/stream_ledger.h"

namespace tandem {

struct RouteLimits {
  std::size_t max_queue = 1024;                             // requests that wait for an engine
  Duration queue_timeout = std::chrono::seconds(10);        // for each of them
  Duration first_report_timeout = std::chrono::seconds(2);  // of all engines, after the start
  Duration connect_timeout = std::chrono::seconds(2);
  Duration first_byte_timeout = std::chrono::seconds(120);
  Duration stall_timeout = std::chrono::seconds(20);    // between two pieces of a stream
  Duration answer_timeout = std::chrono::seconds(600);  // if it is not a stream
  std::int32_t max_attempts = 6;
  Duration recover_timeout = std::chrono::seconds(30);  // from a failure to the next engine
  // Limits of an answer that is not a stream: with an announced length, and without one.
  std::size_t max_answer_bytes = 256U << 20;
  std::size_t max_unannounced_bytes = 32U << 20;
  // Time for a lost engine that reported just before to come back, if there is no other.
  Duration lost_patience = std::chrono::seconds(3);
};

class RoutedCall;

// One run of an engine's process, which may have ended.
struct EngineRun {
  EngineIndex engine;
  std::string id;  // the last it reported
  std::string address;
  TimePoint lost_at{};
};

// How far a call has come.
struct CallProgress {
  TimePoint came_at{};
  TimePoint waiting_since{};               // for an engine
  EngineIndex engine;                      // not valid: none now
  SentId sent = 0;                         // to that engine
  std::int32_t engines_asked = 0;          // counts repeated attempts
  bool began = false;                      // the client's answer has begun
  std::optional<TimePoint> first_told_at;  // first token
  std::optional<TimePoint> moved_at;       // last move

  // The request was tried on an engine: if it has none, it waits for another.
  bool recovering() const { return engines_asked > 0; }
};

// How a call ended, for the metrics.
enum class Outcome { served, refused, failed, gone };

// The router as a call uses it. On the loop's thread.
class CallHost {
 public:
  virtual ~CallHost() = default;
  virtual const RouteLimits& limits() const = 0;
  virtual TimePoint now() const = 0;
  virtual std::unique_ptr<HttpCall> ask(EngineIndex engine, const CallRequest& request,
                                        const CallDeadlines& deadlines, CallEvents& events) = 0;
  // The engine failed the call; `doubted`: it is likely to fail others, too.
  virtual void engine_failed(RoutedCall& call, std::string_view why, bool doubted) = 0;
  virtual EngineRun run_of(EngineIndex engine) const = 0;
  // Whether the engine has reported since `lost_at`: then the process had not ended.
  virtual bool lives(const EngineRun& run) const = 0;
  // The client has received tokens again after a move, after `silent_s` seconds of silence.
  virtual void went_on(double silent_s) = 0;
  // The call needs another engine.
  virtual void place_again(RoutedCall& call) = 0;
  // The last function that the call calls; it is destroyed later, not at once.
  virtual void over(RoutedCall& call, Outcome outcome) = 0;
};

// On the loop's thread.
class RoutedCall final : public CallEvents {
 public:
  RoutedCall(CallHost& host, ClientCall call, std::shared_ptr<AnswerChannel> channel);
  ~RoutedCall() override;

  // Called by the host: sends the request to `engine`.
  void go(EngineIndex engine, SentId sent);
  // The call's engine is lost.
  void engine_lost(std::string_view why);
  // Leaves its engine for another one without a failure; go() must follow. Returns false if the
  // call is over, because only the end of the stream was missing.
  bool leave_for_another();
  // No engine took the request: ends it with this error, as an event if the stream has begun.
  void refuse(const ErrorEnvelope& error);
  void client_gone();
  void client_drained();

  const ClientCall& call() const { return call_; }
  const Wanted& wanted() const { return wanted_; }
  Wanted& wanted() { return wanted_; }
  const CallProgress& progress() const { return progress_; }
  // Whether this is a stream on an engine, not at its end.
  bool can_move() const { return ledger_ && progress_.engine.valid() && !told_all_ && !over_; }
  std::size_t num_tokens() const { return ledger_ ? ledger_->num_tokens() : 0; }

 private:
  enum class Kind { stream, whole, error };  // kind of the engine's answer

  void on_head(const CallHead& head) override;
  void on_bytes(std::string_view bytes) override;
  void on_end(CallEnd end, std::string_view reason) override;

  void take_stream(std::string_view bytes);
  void take_whole(std::string_view bytes);
  void finish_whole();
  void finish_error();
  enum class Loss {
    none,     // it failed this request only
    doubted,  // it is likely to fail others
    lost,     // the request may have ended it; doubted, too
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
  std::optional<StreamLedger> ledger_;  // for streams only
  std::unique_ptr<HttpCall> http_;
  CallProgress progress_;
  TraceContext attempt_;           // span at the engine; not valid: not traced
  TimePoint asked_at_{};           // when the engine was asked
  std::int32_t attempts_ = 0;      // since the last new token
  std::size_t tokens_before_ = 0;  // tokens before the last attempt
  std::optional<EngineRun> lost_;  // the last engine lost while it had the request
  Kind kind_ = Kind::whole;
  CallHead head_;
  std::string body_;               // of an answer that is collected
  std::string passed_;             // stream bytes that on_bytes() passes on
  std::size_t silent_choice_ = 0;  // choice of the channel's silent events
  bool silent_ = false;            // no tokens since the move
  bool told_all_ = false;          // the end of a stream was sent
  bool over_ = false;
};

}  // namespace tandem
