#include "scheduler/cluster/picker/pick_stream.h"

#include <algorithm>
#include <utility>

namespace tandem {
namespace {

ErrorEnvelope too_long() {
  return {413, "The request's body is too long", "body_too_long"};
}

ErrorEnvelope wrong_mode() {
  return {500,
          "The picker must see the whole body: set the filter's request_body_mode to BUFFERED or "
          "FULL_DUPLEX_STREAMED",
          "request_body_mode"};
}

// Splits the body into pieces of a size that Envoy accepts; `end`: nothing more follows in this
// direction.
void give_back(Phase phase, const std::string& body, bool end, std::vector<StreamReply>& replies) {
  std::size_t at = 0;
  do {
    StreamReply piece;
    piece.phase = phase;
    piece.streamed = true;
    piece.body = body.substr(at, kStreamPieceBytes);
    at += piece.body.size();
    piece.end = end && at == body.size();
    replies.push_back(std::move(piece));
  } while (at < body.size());
}

bool says_events(const StreamEvent& event) {
  const auto type = event.headers.find("content-type");
  return type != event.headers.end() && type->second.starts_with("text/event-stream");
}

}  // namespace

PickStream::~PickStream() {
  if (pick_ != 0) desk_.over(pick_, answered_);
}

PickStream::Next PickStream::take(StreamEvent event, std::vector<StreamReply>& replies) {
  if (over_) return Next::malformed;
  if (event.phase == Phase::unknown || begun_ == (event.phase == Phase::request_headers)) {
    over_ = true;
    return Next::malformed;
  }
  if (only_shown_) return Next::go_on;
  Next next = Next::malformed;
  switch (event.phase) {
    case Phase::unknown:
      break;
    case Phase::request_headers:
      next = begin(std::move(event), replies);
      break;
    case Phase::request_body:
      next = take_body(std::move(event), replies);
      break;
    case Phase::request_trailers:
      next = take_trailers(replies);
      break;
    case Phase::response_headers:
    case Phase::response_body:
    case Phase::response_trailers:
      next = take_response(event, replies);
      break;
  }
  over_ = next != Next::go_on;
  return next;
}

PickStream::Next PickStream::begin(StreamEvent event, std::vector<StreamReply>& replies) {
  begun_ = true;
  only_shown_ = event.only_shown;
  if (only_shown_) return Next::go_on;
  request_mode_ = event.request_mode;
  response_mode_ = event.response_mode;
  request_.headers = std::move(event.headers);
  request_.subset = std::move(event.subset);
  StreamReply reply;
  reply.phase = Phase::request_headers;
  if (event.end) return decide(std::move(reply), replies);
  if (request_mode_ == BodyMode::other || request_mode_ == BodyMode::none) {
    reply.phase = Phase::unknown;
    reply.refused = wrong_mode();
    replies.push_back(std::move(reply));
    return Next::end;
  }
  if (request_mode_ == BodyMode::buffered) replies.push_back(std::move(reply));
  return Next::go_on;
}

PickStream::Next PickStream::take_body(StreamEvent event, std::vector<StreamReply>& replies) {
  if (request_over_) return Next::malformed;
  if (request_.body.size() + event.body.size() > max_body_bytes_) {
    StreamReply reply;
    reply.refused = too_long();
    replies.push_back(std::move(reply));
    return Next::end;
  }
  if (request_.body.empty()) {
    request_.body = std::move(event.body);
  } else {
    request_.body += event.body;
  }
  StreamReply reply;
  if (request_mode_ == BodyMode::buffered) {
    reply.phase = Phase::request_body;
    return decide(std::move(reply), replies);
  }
  if (!event.end) return Next::go_on;
  reply.phase = Phase::request_headers;
  const Next next = decide(std::move(reply), replies);
  if (next == Next::go_on) give_back(Phase::request_body, request_.body, true, replies);
  request_.body = {};
  return next;
}

PickStream::Next PickStream::take_trailers(std::vector<StreamReply>& replies) {
  StreamReply trailers;
  trailers.phase = Phase::request_trailers;
  if (request_mode_ == BodyMode::full_duplex) {
    if (request_over_) return Next::malformed;
    StreamReply head;
    head.phase = Phase::request_headers;
    const Next next = decide(std::move(head), replies);
    if (next != Next::go_on) return next;
    if (!request_.body.empty()) give_back(Phase::request_body, request_.body, false, replies);
    request_.body = {};
  } else if (!request_over_) {
    return decide(std::move(trailers), replies);  // there was no body
  }
  replies.push_back(std::move(trailers));
  return Next::go_on;
}

PickStream::Next PickStream::take_response(const StreamEvent& event,
                                           std::vector<StreamReply>& replies) {
  if (!event.served.empty() && pick_ != 0) desk_.served(pick_, event.served);
  // An engine sends the headers of an answer that is not an event stream only when it is complete.
  answered_ = answered_ || event.end || event.phase == Phase::response_trailers ||
              (event.phase == Phase::response_headers && !says_events(event));
  if (event.phase == Phase::response_body && response_mode_ == BodyMode::full_duplex) {
    give_back(event.phase, event.body, event.end, replies);
    return Next::go_on;
  }
  StreamReply reply;
  reply.phase = event.phase;
  replies.push_back(std::move(reply));
  return Next::go_on;
}

PickStream::Next PickStream::decide(StreamReply reply, std::vector<StreamReply>& replies) {
  request_over_ = true;
  Pick pick = desk_.pick(request_);
  pick_ = pick.id;
  // The answer may take minutes; only a streamed body is needed again.
  if (request_mode_ != BodyMode::full_duplex) request_ = {};
  if (pick.refused) {
    reply = {};
    reply.refused = std::move(pick.refused);
    replies.push_back(std::move(reply));
    return Next::end;
  }
  reply.endpoints = std::move(pick.endpoints);
  replies.push_back(std::move(reply));
  return Next::go_on;
}

}  // namespace tandem
