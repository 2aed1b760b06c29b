// From bytes to requests: the head's own rules first, then Beast's parser over the same bytes, and
// what either refuses is refused. Bodies are ours: Beast's chunks depend on the pieces they come
// in. No sockets: it is fed, so a fuzzer can feed it, too.
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

  // Both take what they use off the front of `received`. Then request() has all but the body, ...
  State read_head(std::string& received);
  // ... and all. Only when has_body, and only when it is known to be within the limit.
  State read_body(std::string& received);
  // For the next request.
  void reset();

  HttpRequest& request() { return request_; }
  const RequestFraming& framing() const { return scanner_.framing(); }
  // Of Content-Length; a chunked body shows it later.
  bool too_long() const;
  std::size_t max_body_bytes() const { return limit_; }  // of this request, once it has a path
  const HttpRefusal& refusal() const { return refusal_; }

 private:
  State refuse(int status, std::string reason);
  bool take_target();

  const std::size_t max_body_bytes_;
  const std::string wrapping_path_;
  const std::size_t wrapping_bytes_;
  std::size_t limit_;  // of this request's body
  HeadScanner scanner_;
  HttpRequest request_;
  HttpRefusal refusal_;
  std::optional<ChunkedBody> chunks_;  // always there; made anew for each request
};

}  // namespace tandem
