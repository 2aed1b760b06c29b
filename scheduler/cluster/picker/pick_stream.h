// One client request in Envoy's external processing protocol, message by message and without gRPC:
// the meaning of the messages, their answers, and the order.
//
//   request headers -> [body] -> [trailers] -> response headers -> [body] -> [trailers]
//                            ^ here the engine is chosen
//
// With a BUFFERED body, Envoy waits for an answer to each message and takes the endpoint from the
// answer to the body. With FULL_DUPLEX_STREAMED it sends everything without waiting: the answers
// begin when the body is complete, first the headers with the endpoint, then the body, of which
// Envoy keeps no copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "scheduler/cluster/picker/picker.h"

namespace tandem {

// Makes the decisions. Thread-safe.
class PickDesk {
 public:
  virtual ~PickDesk() = default;
  virtual Pick pick(const PickRequest& request) = 0;
  virtual void served(PickId id, std::string_view endpoint) = 0;
  virtual void over(PickId id, bool answered) = 0;  // answered: completely
};

enum class BodyMode { none, buffered, full_duplex, other };

enum class Phase {
  unknown,  // any other message, or none
  request_headers,
  request_body,
  request_trailers,
  response_headers,
  response_body,
  response_trailers,
};

struct StreamEvent {
  Phase phase = Phase::unknown;
  std::map<std::string, std::string> headers;  // lower-case names
  std::string body;
  bool end = false;  // nothing more follows in this direction
  std::optional<std::vector<std::string>> subset;
  std::string served;  // the endpoint, if Envoy names it
  // The body modes, sent with the first message. The default is full duplex, which the endpoint
  // picker protocol requires.
  BodyMode request_mode = BodyMode::full_duplex;
  BodyMode response_mode = BodyMode::full_duplex;
  bool only_shown = false;  // observation only: nothing may be answered
};

struct StreamReply {
  Phase phase = Phase::unknown;  // unknown: `refused`
  std::string endpoints;         // for the request; empty: no endpoint is set
  bool streamed = false;         // it contains the body's next piece:
  std::string body;
  bool end = false;
  std::optional<ErrorEnvelope> refused;  // the error for the client; ends the stream
};

inline constexpr std::size_t kStreamPieceBytes = 48 << 10;  // Envoy takes 64 KB at most

// Not thread-safe.
class PickStream {
 public:
  enum class Next { go_on, end, malformed };

  // `desk` outlives it.
  PickStream(PickDesk& desk, std::size_t max_body_bytes)
      : desk_(desk), max_body_bytes_(max_body_bytes) {}
  ~PickStream();  // reports that the request is over
  PickStream(const PickStream&) = delete;
  PickStream& operator=(const PickStream&) = delete;

  // Appends the answers to the event. Malformed: an order of messages that Envoy never sends.
  Next take(StreamEvent event, std::vector<StreamReply>& replies);

 private:
  Next begin(StreamEvent event, std::vector<StreamReply>& replies);
  Next take_body(StreamEvent event, std::vector<StreamReply>& replies);
  Next take_trailers(std::vector<StreamReply>& replies);
  Next take_response(const StreamEvent& event, std::vector<StreamReply>& replies);
  // Appends the answer that names the endpoint or refuses the request.
  Next decide(StreamReply reply, std::vector<StreamReply>& replies);

  PickDesk& desk_;
  const std::size_t max_body_bytes_;
  bool begun_ = false;
  bool request_over_ = false;  // decided, or will never be
  bool over_ = false;
  bool answered_ = false;  // completely
  bool only_shown_ = false;
  BodyMode request_mode_ = BodyMode::full_duplex;
  BodyMode response_mode_ = BodyMode::full_duplex;
  PickRequest request_;
  PickId pick_ = 0;
};

}  // namespace tandem
