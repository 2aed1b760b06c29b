#include "base/http/connection.h"

#include <fmt/format.h>

#include <exception>
#include <utility>

#include "base/http/inflate.h"
#include "base/http/request_id.h"
#include "base/http/response_head.h"
#include "base/limits/bytes_text.h"
#include "base/trace/tracer.h"

namespace tandem {
namespace {

constexpr Duration kLinger = std::chrono::seconds(10);
constexpr int kUnsentBytes = 16 << 10;          // of a stream
constexpr std::size_t kCopiedBody = 16U << 10;  // shorter bodies are sent together with the head

}  // namespace

Connection::Connection(Strand strand, Descriptor accepted, bool is_ipv6, ConnectionContext& context)
    : context_(context),
      socket_(std::move(strand), std::move(accepted), is_ipv6),
      deadline_(socket_.strand()),
      probe_timer_(socket_.strand()),
      silence_timer_(socket_.strand()),
      hold_timer_(socket_.strand()),
      reader_(context.options.max_body_bytes, context.options.wrapping_path,
              context.options.wrapping_bytes) {}

Connection::~Connection() {
  close();
}

void Connection::begin() {
  post([](Connection& self) {
    self.begin_request();
    self.listen();
  });
}

void Connection::refuse(Duration patience) {
  post([patience](Connection& self) {
    self.refuse_request(503, "too many connections; try again later");
    if (self.patience_ > patience) self.patience_ = patience;
    self.listen();
  });
}

void Connection::break_off() {
  post([](Connection& self) { self.close(); });
}

// The only function that changes the phase. Every wait for the client has its own deadline.
void Connection::enter(Phase phase) {
  phase_ = phase;
  switch (phase) {
    case Phase::idle:
      return set_deadline(context_.options.keep_alive);
    case Phase::head:
      return set_deadline(context_.options.client_timeout);  // covers the body too
    case Phase::lingering:
      return set_deadline(patience_);
    case Phase::body:
      return;
    case Phase::handling:
    case Phase::waiting:
    case Phase::sending:
    case Phase::closed:
      return clear_deadline();
  }
}

void Connection::begin_request() {
  reader_.reset();
  probed_ = false;
  enter(Phase::idle);
  if (in_.empty()) {
    if (ended_) close();
    return;
  }
  // Posted instead of called, as thousands of pipelined requests would nest as deep.
  post([](Connection& self) {
    self.advance();
    if (self.ended_) self.on_end();
    self.listen();
  });
}

// Handles the bytes received so far.
void Connection::advance() {
  if (phase_ == Phase::idle && !in_.empty()) enter(Phase::head);
  if (phase_ == Phase::head) take_head();
  if (phase_ == Phase::body) take_body();
}

void Connection::take_head() {
  const RequestReader::State state = reader_.read_head(in_);
  if (state == RequestReader::State::more) return;
  const RequestFraming& framing = reader_.framing();
  if (state == RequestReader::State::refused) {
    if (first_ && reader_.refusal().status == 505 && in_.starts_with(kHttp2Preface)) {
      out_ += http2_refusal();
      close_ = true;
      patience_ = kLinger;
      enter(Phase::sending);
      return pump();
    }
    return refuse_request(reader_.refusal().status, reader_.refusal().reason);
  }
  first_ = false;
  close_ = !framing.keep_alive;
  HttpRequest& request = reader_.request();
  request.id = request_id(request.header("x-request-id"));
  request.trace = trace::begin(request.header("traceparent"));
  if (request.trace.sampled) request.came = SteadyClock().now();
  if (auto early = context_.handler.screen(request)) {
    if (request.has_body) {  // the body will not be read
      close_ = true;
      patience_ = kLinger;
    }
    return respond(std::move(*early));
  }
  if (reader_.too_long()) {
    return refuse_request(
        413, fmt::format("the body is longer than {}", size_text(reader_.max_body_bytes())));
  }
  if (!request.has_body) return call_handler();
  if (content_coding(request.header("content-encoding")) == ContentCoding::unknown) {
    return refuse_request(415,
                          "this content-encoding is not supported; send the body plain or by gzip");
  }
  enter(Phase::body);
  if (framing.wants_continue && in_.empty()) {
    out_ += kContinue;
    pump();
  }
}

void Connection::take_body() {
  switch (reader_.read_body(in_)) {
    case RequestReader::State::more:
      return;
    case RequestReader::State::refused:
      return refuse_request(reader_.refusal().status, reader_.refusal().reason);
    case RequestReader::State::complete:
      return call_handler();
  }
}

// The rest of the client's bytes cannot be interpreted, so this is the last answer.
void Connection::refuse_request(int status, std::string_view reason) {
  close_ = true;
  patience_ = kLinger;
  respond(context_.handler.refuse(status, reason));
}

void Connection::call_handler() {
  enter(Phase::handling);
  const HttpRequest& request = reader_.request();
  if (context_.handler.at_once(request)) return answered(context_.handler.handle(request));
  if (request.has_body && !unpacked_ &&
      content_coding(request.header("content-encoding")) == ContentCoding::deflated) {
    run_on_worker(context_.quick, [](Connection& self) { self.unpack(); });
  } else {
    WorkerLane& lane = context_.handler.slow(request)    ? context_.slow
                       : request.body.size() > kBulkBody ? context_.bulk
                                                         : context_.quick;
    unpacked_ = false;
    run_on_worker(lane, [](Connection& self) {
      self.result_ = self.context_.handler.handle(self.reader_.request());
    });
  }
  watch_half_closed();
}

// Runs on a worker, before the size of the body is known.
void Connection::unpack() {
  HttpRequest& request = reader_.request();
  const std::size_t limit = context_.options.max_body_bytes;
  std::string plain;
  const Inflated inflated = inflate_bytes(request.body, limit, plain);
  request.body = std::move(plain);
  unpacked_ = inflated == Inflated::done;
  if (unpacked_) return;
  const bool too_long = inflated == Inflated::too_long;
  result_ = context_.handler.refuse(
      too_long ? 413 : 400, too_long ? fmt::format("the body is longer than {}", size_text(limit))
                                     : "the body is not what its Content-Encoding says");
}

// `job` sets result_, which then returns to the strand.
void Connection::run_on_worker(WorkerLane& lane, std::function<void(Connection&)> job) {
  const bool taken = lane.run([self = shared_from_this(), job = std::move(job)] {
    bool failed = false;
    try {
      self->result_ = {};
      job(*self);
    } catch (...) {  // most likely out of memory
      failed = true;
    }
    self->post([failed](Connection& back) {
      if (back.phase_ == Phase::closed) {
        back.result_ = {};
      } else if (failed) {
        back.refuse_request(500, "the server has no memory left for this request");
      } else {
        back.answered(std::move(back.result_));
      }
    });
  });
  if (!taken) close();
}

void Connection::answered(HttpResponse response) {
  if (unpacked_) return call_handler();        // the handler has not been called yet
  std::string().swap(reader_.request().body);  // frees the body early, as a stream may be long
  if (response.guard) guard_ = std::move(response.guard);
  if (!response.deferred) return respond(std::move(response));
  enter(Phase::waiting);
  deferred_ = std::move(response.deferred);
  deferred_->on_ready(make_wake());
  wait_for_deferred();
}

void Connection::wait_for_deferred() {
  if (!deferred_->ready()) return watch_half_closed();
  enter(Phase::handling);
  const bool is_long = deferred_->is_long();
  run_on_worker(is_long ? context_.bulk : context_.quick,
                [deferred = std::shared_ptr<DeferredResponse>(std::move(deferred_))](
                    Connection& self) { self.result_ = deferred->take(); });
}

void Connection::respond(HttpResponse response) {
  const HttpRequest& request = reader_.request();
  const RequestFraming& asked = reader_.framing();
  context_.handler.finish(request, response);
  if (context_.closing) close_ = true;
  if (response.guard) guard_ = std::move(response.guard);
  const bool silent = request.method == "HEAD" || !may_have_body(response.status);
  ResponseFraming framing;
  framing.http_1_0 = asked.http_1_0;
  framing.length = response.source ? response.source_bytes : response.body.size();
  chunked_ = framing.chunked = !framing.length && !asked.http_1_0;
  // Otherwise the end of the connection marks the end of the body.
  if (!framing.length && !chunked_ && !silent) close_ = true;
  framing.close = close_;
  out_ += response_head(response, framing);
  if (silent) {
    response.source.reset();
  } else if (!response.source && response.body.size() <= kCopiedBody) {
    out_ += response.body;
  } else if (!response.source) {
    tail_ = std::move(response.body);
  }
  cut_off_ = false;
  enter(Phase::sending);
  source_ = std::move(response.source);
  if (source_) {
    probed_ = false;  // from here on the probe differs from the one before the head
    is_stream_ = !response.source_bytes;
    if (is_stream_) socket_.bound_unsent(kUnsentBytes);
    spoke_at_ = SteadyClock().now();
    watch_silence();
    source_->on_ready(make_wake());
  }
  pump();
}

void Connection::finish_response() {
  guard_.reset();
  silence_timer_.cancel();
  hold_timer_.cancel();
  held_ = false;
  if (cut_off_) return close();
  if (!close_) {
    begin_request();
    return listen();
  }
  // Closing with unread bytes would reset the connection, and the client might lose the answer.
  if (patience_ > Duration::zero()) return linger(patience_);
  if (!in_.empty()) return linger(kLinger);
  close();
}

}  // namespace tandem
