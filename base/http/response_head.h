// The bytes that go before a body.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/http/http_message.h"

namespace tandem {

struct ResponseFraming {
  std::optional<std::uint64_t> length;  // of the body; nothing: not known
  bool chunked = false;                 // a stream in chunks, else it ends with the connection
  bool close = false;
  bool http_1_0 = false;  // the client's version, which has to be told that a connection stays
};

// A 204 and a 304 have no body, whatever the response holds.
bool may_have_body(int status);

// Status line, headers and the empty line. A header with a control character in it is left out.
std::string response_head(const HttpResponse& response, const ResponseFraming& framing);

// One chunk of a chunked body; `bytes` are not empty.
void append_chunk(std::string& out, std::string_view bytes);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";
inline constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

// What begins a connection of HTTP/2 by prior knowledge, and the frames that tell such a client, in
// its own protocol, to come again with HTTP/1.1.
inline constexpr std::string_view kHttp2Preface = "PRI * HTTP/2.0\r\n";
std::string http2_refusal();

}  // namespace tandem
