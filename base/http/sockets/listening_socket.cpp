#include "base/http/sockets/listening_socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

namespace tandem {
namespace {

constexpr int kBacklog = 1024;

int port_of(int fd) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) return 0;
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port
                   : reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
}

Status cannot(const std::string& host, int port, const char* why, const char* remedy) {
  return error(StatusCode::unavailable, "cannot listen on {}:{}: {}; {}", host, port, why, remedy);
}

}  // namespace

ListeningSocket::ListeningSocket(ListeningSocket&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), port_(other.port_), is_ipv6_(other.is_ipv6_) {}

ListeningSocket::~ListeningSocket() {
  if (fd_ >= 0) ::close(fd_);
}

int ListeningSocket::release() {
  return std::exchange(fd_, -1);
}

Result<ListeningSocket> ListeningSocket::open(const std::string& host, int port) {
  constexpr const char* kOtherHost = "choose another with --host";
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int failed = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (failed != 0) return cannot(host, port, ::gai_strerror(failed), kOtherHost);
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, &::freeaddrinfo);
  int reason = 0;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    const int fd = ::socket(each->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    ListeningSocket socket(fd, each->ai_family == AF_INET6);
    const int on = 1;  // allows a port with connections in TIME_WAIT; no sharing
    if (fd >= 0 && ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
        ::bind(fd, each->ai_addr, each->ai_addrlen) == 0 && ::listen(fd, kBacklog) == 0) {
      socket.port_ = port_of(fd);
      return socket;
    }
    reason = errno;
  }
  const char* remedy = reason == EADDRINUSE || reason == EACCES
                           ? "choose another with --port, 0 picks a free one"
                           : kOtherHost;
  return cannot(host, port, std::strerror(reason), remedy);
}

}  // namespace tandem
