#include "scheduler/cluster/picker/endpoint.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <memory>
#include <utility>

namespace tandem {
namespace {

Result<std::string> numeric_host(const std::string& host) {
  addrinfo wanted{};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int failure = getaddrinfo(host.c_str(), nullptr, &wanted, &found); failure != 0) {
    return error(StatusCode::unavailable, "'{}' has no address: {}", host, gai_strerror(failure));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
  // An IPv4 address is preferred: localhost resolves to both kinds, and servers listen on
  // 127.0.0.1.
  const addrinfo* best = found;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    if (one->ai_family == AF_INET) {
      best = one;
      break;
    }
  }
  std::array<char, NI_MAXHOST> text{};
  const int failure = getnameinfo(best->ai_addr, best->ai_addrlen, text.data(), text.size(),
                                  nullptr, 0, NI_NUMERICHOST);
  if (failure != 0) {
    return error(StatusCode::unavailable, "'{}': {}", host, gai_strerror(failure));
  }
  return std::string(text.data());
}

}  // namespace

std::string endpoint_text(const HttpAddress& address) {
  constexpr std::size_t kSchemeBytes = 7;  // "http://"
  return address.text().substr(kSchemeBytes);
}

Result<HttpAddress> numeric_address(const HttpAddress& address) {
  Result<std::string> host = numeric_host(address.host);
  if (!host) return host.status().with_context(address.text());
  return HttpAddress{*std::move(host), address.port};
}

}  // namespace tandem
