#include "base/http/response_head.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <ctime>
#include <iterator>

namespace tandem {
namespace {

std::string_view reason_phrase(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 201:
      return "Created";
    case 202:
      return "Accepted";
    case 204:
      return "No Content";
    case 304:
      return "Not Modified";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 413:
      return "Content Too Large";
    case 414:
      return "URI Too Long";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 502:
      return "Bad Gateway";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Unknown";
  }
}

// In HTTP's format, independent of the locale.
std::string http_date() {
  static constexpr std::array kDays = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr std::array kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                         "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  return fmt::format("{}, {:02} {} {} {:02}:{:02}:{:02} GMT",
                     kDays[static_cast<std::size_t>(utc.tm_wday)], utc.tm_mday,
                     kMonths[static_cast<std::size_t>(utc.tm_mon)], utc.tm_year + 1900, utc.tm_hour,
                     utc.tm_min, utc.tm_sec);
}

bool is_clean(std::string_view text) {
  return std::none_of(text.begin(), text.end(),
                      [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

void append_frame(std::string& out, std::uint8_t type, std::string_view payload) {
  const auto size = static_cast<std::uint32_t>(payload.size());
  for (const std::uint32_t byte : {size >> 16, size >> 8, size})
    out += static_cast<char>(byte & 255);
  out += static_cast<char>(type);
  out.append(5, '\0');  // no flags; stream 0 means the connection
  out += payload;
}

}  // namespace

bool may_have_body(int status) {
  return status >= 200 && status != 204 && status != 304;
}

std::string response_head(const HttpResponse& response, const ResponseFraming& framing) {
  std::string head = fmt::format("HTTP/1.1 {} {}\r\nDate: {}\r\n", response.status,
                                 reason_phrase(response.status), http_date());
  const auto out = std::back_inserter(head);
  if (framing.close) {
    head += "Connection: close\r\n";
  } else if (framing.http_1_0) {
    head += "Connection: keep-alive\r\n";
  }
  for (const auto& [name, value] : response.headers) {
    if (is_clean(name) && is_clean(value)) fmt::format_to(out, "{}: {}\r\n", name, value);
  }
  if (may_have_body(response.status)) {
    fmt::format_to(out, "Content-Type: {}\r\n", response.content_type);
    if (framing.length) {
      fmt::format_to(out, "Content-Length: {}\r\n", *framing.length);
    } else if (framing.chunked) {
      head += "Transfer-Encoding: chunked\r\n";
    }
  }
  head += "\r\n";
  return head;
}

void append_chunk(std::string& out, std::string_view bytes) {
  fmt::format_to(std::back_inserter(out), "{:x}\r\n", bytes.size());
  out += bytes;
  out += "\r\n";
}

std::string http2_refusal() {
  constexpr std::uint8_t kSettings = 4;
  constexpr std::uint8_t kGoAway = 7;
  constexpr char kHttp11Required = 0xd;
  std::string frames;
  append_frame(frames, kSettings, {});
  std::string go_away(8, '\0');  // the last stream served (none), then the error
  go_away[7] = kHttp11Required;
  append_frame(frames, kGoAway, go_away + "this server speaks HTTP/1.1");
  return frames;
}

}  // namespace tandem
