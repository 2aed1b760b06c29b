#include "scheduler/cluster/router/routed_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <system_error>
#include <utility>

#include "base/http/sse.h"
#include "base/log/log.h"
#include "base/trace/tracer.h"
#include "scheduler/cluster/router/call_trace.h"
#include "scheduler/cluster/router/route_error.h"

namespace tandem {
namespace {

constexpr int kOk = 200;
constexpr int kNotFound = 404;
constexpr int kConflict = 409;
constexpr int kTooMany = 429;
constexpr int kServerError = 500;
constexpr int kUnavailable = 503;
constexpr const char* kRelay = "/v1/relay";
constexpr std::string_view kDeadline = "x-slo-ttft-ms";
constexpr double kLeastDeadlineMs = 0.001;  // deadline passed: the engine answers so
constexpr std::string_view kTooLate = "deadline_unreachable";

// Returns 0 without a Content-Length.
std::uint64_t announced_bytes(const CallHead& head) {
  const std::string_view text = head.header("content-length");
  std::uint64_t bytes = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), bytes);
  return failure == std::errc::result_out_of_range ? ~std::uint64_t{0} : bytes;
}

}  // namespace

RoutedCall::RoutedCall(CallHost& host, ClientCall call, std::shared_ptr<AnswerChannel> channel)
    : host_(host), call_(std::move(call)), channel_(std::move(channel)) {
  progress_.came_at = progress_.waiting_since = host.now();
  wanted_.model = call_.model;
  wanted_.adapters = call_.adapters;
  wanted_.prompt_tokens = call_.prompt_tokens;
  wanted_.prompt = call_.prompt;
  wanted_.slo_ttft_s = call_.slo_ttft_s;
  wanted_.slo_token_s = call_.slo_token_s;
  if (!call_.stream) return;
  ledger_.emplace(call_.choices, call_.include_usage);
  channel_->set_silence(silent_event(call_, 0));
}

RoutedCall::~RoutedCall() = default;

void RoutedCall::go(EngineIndex engine, SentId sent) {
  progress_.engine = engine;
  progress_.sent = sent;
  asked_at_ = host_.now();
  if (call_.trace.sampled && trace::on()) {
    trace_wait(call_.trace, progress_.waiting_since, asked_at_);
    attempt_ = call_.trace.child();
  }
  if (num_tokens() > tokens_before_) attempts_ = 0;  // the last engine made progress
  tokens_before_ = num_tokens();
  ++attempts_;
  ++progress_.engines_asked;
  wanted_.avoid_strictly = false;
  kind_ = Kind::whole;
  head_ = {};
  body_ = {};
  CallRequest request;
  request.method = "POST";
  request.target = call_.relayed ? kRelay : call_.path;
  request.headers = headers_now();
  request.once = true;  // not resent, as it may have ended the server
  request.body = call_.body;
  if (call_.relayed) {
    const bool goes_on = ledger_ && ledger_->began();
    request.body = relay_body(call_, goes_on ? ledger_->sent() : std::string(), wanted_.weights);
  }
  const RouteLimits& limits = host_.limits();
  http_ = host_.ask(engine, request,
                    {.connect = limits.connect_timeout,
                     .first_byte = call_.stream ? limits.first_byte_timeout : limits.answer_timeout,
                     .between = limits.stall_timeout},
                    *this);
}

// The client's deadline counts from its request, not from each attempt.
std::vector<std::pair<std::string, std::string>> RoutedCall::headers_now() const {
  auto headers = call_.headers;
  const double passed_ms = seconds_between(progress_.came_at, host_.now()) * 1e3;
  for (auto& [name, value] : headers) {
    if (name != kDeadline || call_.slo_ttft_s <= 0) continue;
    value = fmt::format("{:.3f}", std::max(call_.slo_ttft_s * 1e3 - passed_ms, kLeastDeadlineMs));
  }
  // The parent is the attempt's span or, without one, the client's.
  const TraceContext& asker = attempt_.valid() ? attempt_ : call_.trace;
  if (asker.valid()) headers.emplace_back("traceparent", traceparent(asker));
  return headers;
}

void RoutedCall::on_head(const CallHead& head) {
  head_ = head;
  if (head.status != kOk) {
    kind_ = Kind::error;
  } else if (call_.stream) {
    if (!head.header("content-type").starts_with("text/event-stream")) {
      return again("the engine answered with something else than a stream", Loss::doubted);
    }
    kind_ = Kind::stream;
    if (!std::exchange(progress_.began, true)) channel_->begin_stream();
  }
}

void RoutedCall::on_bytes(std::string_view bytes) {
  if (kind_ == Kind::stream) return take_stream(bytes);
  take_whole(bytes);
}

void RoutedCall::take_stream(std::string_view bytes) {
  if (told_all_) return;
  passed_.clear();
  const StreamLedger::News news = ledger_->take(bytes, passed_);
  if (!wanted_.weights) wanted_.weights = ledger_->weights();
  const bool room = passed_.empty() || channel_->write(passed_);
  if (const std::size_t open = ledger_->first_open(); open != silent_choice_) {
    silent_choice_ = open;
    channel_->set_silence(silent_event(call_, open));
  }
  if (!progress_.first_told_at && ledger_->num_tokens() > 0) progress_.first_told_at = host_.now();
  if (silent_ && !passed_.empty()) {
    silent_ = false;
    host_.went_on(seconds_between(*progress_.moved_at, host_.now()));
  }
  switch (news) {
    case StreamLedger::News::more:
      if (!room) http_->pause();
      return;
    case StreamLedger::News::done:
      // The end of the response is still to come, after which the connection can be used again.
      told_all_ = true;
      channel_->end();
      return http_->resume();
    case StreamLedger::News::moved:
      return again("the engine handed the stream over", Loss::doubted);
    case StreamLedger::News::failed:
      return again("the engine reported a failure within the stream", Loss::doubted);
    case StreamLedger::News::hostile:
      return again("the engine's stream was malformed", Loss::doubted);
  }
}

// Limits the size and time of an answer. A too long one is asked for once more at another engine;
// the second time the request is the cause.
void RoutedCall::take_whole(std::string_view bytes) {
  const RouteLimits& limits = host_.limits();
  const std::uint64_t announced = announced_bytes(head_);
  const std::uint64_t most = announced > 0 ? limits.max_answer_bytes : limits.max_unannounced_bytes;
  if (host_.now() - asked_at_ > limits.answer_timeout) {
    head_ = {};
    return again("the engine's answer took too long", Loss::none);
  }
  if (announced > most || body_.size() + bytes.size() > most) {
    head_ = {};
    body_ = {};
    if (attempts_ < 2) return again("the engine's answer is too long", Loss::doubted);
    return refuse({502, "The engine's answer is too long", "answer_too_long", 0});
  }
  // The buffer doubles as bytes arrive, up to the announced size, which may be false.
  if (const std::size_t now = body_.size() + bytes.size(); now > body_.capacity()) {
    const std::size_t most_now = std::max<std::size_t>(announced, now);
    body_.reserve(std::min(most_now, std::max(now, 2 * body_.capacity())));
  }
  body_ += bytes;
}

void RoutedCall::on_end(CallEnd end, std::string_view reason) {
  if (told_all_) return this->end(Outcome::served);
  if (end == CallEnd::complete) {
    if (kind_ == Kind::whole) return finish_whole();
    if (kind_ == Kind::error) return finish_error();
    return again("the engine ended the stream early", Loss::doubted);
  }
  head_ = {};  // an incomplete answer does not count
  if (end == CallEnd::late) {
    // Not doubted: the engine may be fine and report, with only this request delayed.
    return again("the engine sent nothing for too long", Loss::none);
  }
  if (end == CallEnd::malformed) return again("the engine's answer is not HTTP", Loss::doubted);
  if (end == CallEnd::broken) {
    return again(fmt::format("the connection to the engine broke ({})", reason), Loss::lost);
  }
  // The engine has received nothing of the request.
  again(fmt::format("the engine cannot be reached ({})", reason), Loss::doubted);
}

void RoutedCall::finish_whole() {
  HttpResponse response;
  response.status = head_.status;
  if (const auto type = head_.header("content-type"); !type.empty()) response.content_type = type;
  response.body = std::move(body_);
  say(std::move(response));
  end(Outcome::served);
}

// 503: the engine drains or starts; 429: it is full; other 5xx: the engine may be broken, or the
// request may break engines, so only one more is asked. A deadline out of reach is tried on one
// more, too, or an overloaded cluster would be asked engine by engine in vain. 404: the engine may
// lack the registry's latest change, or the registry. Errors of the client are the same on every
// engine.
void RoutedCall::finish_error() {
  const bool late = head_.status == kTooMany && body_.find(kTooLate) != std::string::npos;
  const bool scarce = (head_.status == kTooMany && !late) || head_.status == kUnavailable;
  const bool another =
      attempts_ < 2 && (late || head_.status >= kServerError || head_.status == kNotFound);
  if (scarce || another) {
    wanted_.avoid_strictly = head_.status == kTooMany || head_.status == kNotFound;
    return again(fmt::format("the engine answered {}", head_.status),
                 head_.status == kUnavailable ? Loss::doubted : Loss::none);
  }
  // Another engine has begun the answer, so this is not the client's error: this engine lacks
  // something. 409: it has other weights, as its next report will show.
  if (progress_.began) {
    return again(fmt::format("the engine answered {}", head_.status),
                 head_.status == kConflict ? Loss::doubted : Loss::none);
  }
  finish_whole();
}

void RoutedCall::again(std::string_view why, Loss loss) {
  end_attempt();
  http_.reset();
  const auto held_head = std::exchange(head_, {});
  EngineRun run = host_.run_of(progress_.engine);
  host_.engine_failed(*this, why, loss != Loss::none);
  if (!leave()) return;
  if (loss == Loss::lost && is_second_loss(std::move(run))) {
    return refuse(engines_lost(call_.request_id));
  }
  head_ = held_head;  // answered if no other engine succeeds
  if (attempts_ >= host_.limits().max_attempts) return give_up(why);
  progress_.waiting_since = host_.now();
  host_.place_again(*this);
}

// A request that ends engines must not end them one after another. If the first lost engine reports
// again, only its connection was lost.
bool RoutedCall::is_second_loss(EngineRun run) {
  const bool second = lost_ && !host_.lives(*lost_);
  if (second) {
    log::error(
        "request {} ({}) is not sent to another engine: {} and then {} were lost while they had "
        "it, and it may be the cause",
        call_.request_id, call_.id, lost_->address, run.address);
  }
  lost_ = std::move(run);
  return second;
}

// The host has already removed the request from the engine's count. Returns false if it is over.
bool RoutedCall::leave() {
  wanted_.avoid = std::exchange(progress_.engine, EngineIndex());
  progress_.sent = 0;
  if (ledger_) ledger_->cut();
  if (!ledger_ || !ledger_->complete()) return true;
  // The engine was lost or left after the last token and before the end mark.
  channel_->write(kSseDone);
  channel_->end();
  end(Outcome::served);
  return false;
}

bool RoutedCall::leave_for_another() {
  end_attempt();
  http_.reset();
  head_ = {};
  if (!leave()) return false;
  progress_.moved_at = host_.now();
  --attempts_;  // a move is no failed attempt
  silent_ = true;
  return true;
}

void RoutedCall::engine_lost(std::string_view why) {
  if (!over_ && progress_.engine.valid()) again(why, Loss::lost);
}

void RoutedCall::give_up(std::string_view why) {
  refuse({kUnavailable,
          fmt::format("No engine could answer the request. The last attempt: {}", why),
          "engines_failed", 1});
}

void RoutedCall::refuse(const ErrorEnvelope& error) {
  http_.reset();
  if (progress_.began) {
    std::string last = ledger_->error_event();
    if (last.empty()) last = sse_event(envelope_text(error));
    channel_->write(last);
    channel_->write(kSseDone);
    channel_->end();
    return end(Outcome::failed);
  }
  // An engine's own error says more than that no other engine was found.
  if (head_.status >= 400) {
    HttpResponse response;
    response.status = head_.status;
    response.body = std::move(body_);
    if (const auto after = head_.header("retry-after"); !after.empty()) {
      response.headers.emplace_back("Retry-After", std::string(after));
    }
    say(std::move(response));
  } else {
    channel_->answer([error] { return envelope_response(error); });
  }
  end(error.status == kTooMany || error.status == 404 ? Outcome::refused : Outcome::failed);
}

// std::function must be copyable, and an HttpResponse is not, so it is held by a pointer. It is
// taken once.
void RoutedCall::say(HttpResponse response) {
  const auto held = std::make_shared<HttpResponse>(std::move(response));
  channel_->answer([held] { return std::move(*held); });
}

void RoutedCall::client_gone() {
  if (over_) return;
  http_.reset();
  end(Outcome::gone);
}

void RoutedCall::client_drained() {
  if (http_ != nullptr) http_->resume();
}

void RoutedCall::end_attempt() {
  if (!attempt_.valid()) return;
  trace_attempt(std::exchange(attempt_, {}), asked_at_, host_.now(), head_.status);
}

void RoutedCall::end(Outcome outcome) {
  end_attempt();
  over_ = true;
  http_.reset();
  host_.over(*this, outcome);
}

}  // namespace tandem
