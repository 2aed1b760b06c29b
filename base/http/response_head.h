// The bytes that precede a body.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/http/http_message.h"

namespace tandem {

struct ResponseFraming {
  std::optional<std::uint64_t> length;  // the body's length; nothing: unknown
  bool chunked = false;                 // sent in chunks; otherwise the connection's end is its end
  bool close = false;
  bool http_1_0 = false;  // the client's version, which needs to hear that a connection stays
};

// Responses 204 and 304 have no body, whatever the response holds.
bool may_have_body(int status);

// Status line, headers and the empty line. Headers with a control character are left out.
std::string response_head(const HttpResponse& response, const ResponseFraming& framing);

// One chunk of a chunked body; `bytes` must not be empty.
void append_chunk(std::string& out, std::string_view bytes);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";
inline constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

// The beginning of an HTTP/2 connection by prior knowledge, and the frames that tell such a client,
// in its own protocol, to retry with HTTP/1.1.
inline constexpr std::string_view kHttp2Preface = "PRI * HTTP/2.0\r\n";
std::string http2_refusal();

}  // namespace tandem
