// One request of a client's as Envoy's external processing tells of it, message by message, without
// gRPC: what the messages say, what is answered, and in which order.
//
//   request headers -> [body] -> [trailers] -> response headers -> [body] -> [trailers]
//                            ^ here the engine is chosen
//
// With the body BUFFERED, Envoy waits for an answer to each message and takes the endpoint with the
// body's. With FULL_DUPLEX_STREAMED it sends all without waiting: nothing is answered until the
// body is whole, then the headers with the endpoint, and the body, which Envoy keeps no copy of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "scheduler/picker/picker.h"

namespace tandem {

// Who decides. Thread-safe.
class PickDesk {
 public:
  virtual ~PickDesk() = default;
  virtual Pick pick(const PickRequest& request) = 0;
  virtual void served(PickId id, std::string_view endpoint) = 0;
  virtual void over(PickId id, bool answered) = 0;  // answered: in full
};

enum class BodyMode { none, buffered, full_duplex, other };

enum class Phase {
  unknown,  // none of these, or nothing
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
  bool end = false;  // nothing of this direction follows
  std::optional<std::vector<std::string>> subset;
  std::string served;  // the endpoint, if it is told
  // Told with the first message; whoever does not tell speaks full duplex, which the endpoint
  // picker protocol demands.
  BodyMode request_mode = BodyMode::full_duplex;
  BodyMode response_mode = BodyMode::full_duplex;
  bool only_shown = false;  // nothing may be answered
};

struct StreamReply {
  Phase phase = Phase::unknown;  // unknown: `refused`
  std::string endpoints;         // for the request; empty: nothing to say
  bool streamed = false;         // it has the body's next piece:
  std::string body;
  bool end = false;
  std::optional<ErrorEnvelope> refused;  // the client's answer, and the last of the stream
};

inline constexpr std::size_t kStreamPieceBytes = 48 << 10;  // Envoy takes 64 KB at most

// Not thread-safe.
class PickStream {
 public:
  enum class Next { go_on, end, malformed };

  // `desk` outlives it.
  PickStream(PickDesk& desk, std::size_t max_body_bytes)
      : desk_(desk), max_body_bytes_(max_body_bytes) {}
  ~PickStream();  // the request is over
  PickStream(const PickStream&) = delete;
  PickStream& operator=(const PickStream&) = delete;

  // Appends what is to be answered. Malformed: an order of messages that Envoy never keeps.
  Next take(StreamEvent event, std::vector<StreamReply>& replies);

 private:
  Next begin(StreamEvent event, std::vector<StreamReply>& replies);
  Next take_body(StreamEvent event, std::vector<StreamReply>& replies);
  Next take_trailers(std::vector<StreamReply>& replies);
  Next take_response(const StreamEvent& event, std::vector<StreamReply>& replies);
  // Adds the answer that names the endpoint, or refuses.
  Next decide(StreamReply reply, std::vector<StreamReply>& replies);

  PickDesk& desk_;
  const std::size_t max_body_bytes_;
  bool begun_ = false;
  bool request_over_ = false;  // decided, or never will be
  bool over_ = false;
  bool answered_ = false;  // in full
  bool only_shown_ = false;
  BodyMode request_mode_ = BodyMode::full_duplex;
  BodyMode response_mode_ = BodyMode::full_duplex;
  PickRequest request_;
  PickId pick_ = 0;
};

}  // namespace tandem
