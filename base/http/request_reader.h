// Parses bytes into requests: our own rules for the head first, then Beast's parser on the same
// bytes; either can refuse. Bodies are parsed here, as Beast's chunks depend on the pieces in which
// they arrive. Uses no sockets: the caller feeds it, which may also be a fuzzer.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "base/http/chunked_body.h"
#include "base/http/head_scanner.h"
#include "base/http/http_message.h"

namespace tandem {

class RequestReader {
 public:
  enum class State { more, complete, refused };

  // Bodies of `wrapping_path` may be longer by `wrapping_bytes`.
  explicit RequestReader(std::size_t max_body_bytes, std::string wrapping_path = {},
                         std::size_t wrapping_bytes = 0);

  // Both remove the bytes they use from `received`. After this, request() has all but the body, ...
  State read_head(std::string& received);
  // ... and after this, everything. Requires has_body and a length known to be within the limit.
  State read_body(std::string& received);
  // Prepares for the next request.
  void reset();

  HttpRequest& request() { return request_; }
  const RequestFraming& framing() const { return scanner_.framing(); }
  // Judges Content-Length; a chunked body shows its length later.
  bool too_long() const;
  std::size_t max_body_bytes() const { return limit_; }  // of this request, once its path is known
  const HttpRefusal& refusal() const { return refusal_; }

 private:
  State refuse(int status, std::string reason);
  bool take_target();

  const std::size_t max_body_bytes_;
  const std::string wrapping_path_;
  const std::size_t wrapping_bytes_;
  std::size_t limit_;  // for this request's body
  HeadScanner scanner_;
  HttpRequest request_;
  HttpRefusal refusal_;
  std::optional<ChunkedBody> chunks_;  // always set; made anew for each request
};

}  // namespace tandem
