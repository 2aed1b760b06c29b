#include "base/http/client/http_address.h"

#include <algorithm>

#include "base/parse_number.h"

namespace tandem {
namespace {

constexpr std::string_view kScheme = "http://";
constexpr std::size_t kMaxHostBytes = 253;
constexpr int kMaxPort = 65535;

bool is_host_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '-' || c == '_' || c == ':';
}

}  // namespace

Result<HttpAddress> HttpAddress::parse(std::string_view url) {
  const auto wrong = [whole = url](std::string_view why = "is no address") {
    return invalid("'{}' {}; give http://HOST:PORT", whole, why);
  };
  if (url.starts_with(kScheme)) {
    url.remove_prefix(kScheme.size());
  } else if (url.find("://") != std::string_view::npos) {
    return wrong("has another scheme than http");
  }
  if (url.ends_with('/')) url.remove_suffix(1);
  if (!url.empty() && url.find('/', 1) != std::string_view::npos) return wrong("has a path");
  const std::size_t colon = url.rfind(':');
  if (colon == std::string_view::npos) return wrong("names no port");
  std::string_view host = url.substr(0, colon);
  const std::string_view digits = url.substr(colon + 1);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return wrong();  // IPv6 without brackets: the colon of the port is ambiguous
  }
  HttpAddress address;
  address.port = parse_number<int>(digits).value_or(0);
  const bool has_port = address.port >= 1 && address.port <= kMaxPort;
  const bool has_host = !host.empty() && host.size() <= kMaxHostBytes &&
                        std::all_of(host.begin(), host.end(), is_host_char);
  if (!has_port || !has_host) return wrong();
  address.host = host;
  return address;
}

std::string HttpAddress::text() const {
  return fmt::format("{}{}", tls ? "https://" : kScheme, authority());
}

std::string HttpAddress::authority() const {
  const bool v6 = host.find(':') != std::string::npos;
  return fmt::format("{}{}{}:{}", v6 ? "[" : "", host, v6 ? "]" : "", port);
}

}  // namespace tandem
