#include "engine/server/http/client_socket.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace tandem {
namespace {

constexpr std::size_t kReadBytes = 16384;

int poll_ms(Duration timeout) {
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(timeout).count();
  // Capped, since TimePoint::max() is a deadline too; the callers' loops wait on.
  return static_cast<int>(std::clamp<long long>(ms, 0, 1'000'000'000));
}

}  // namespace

ClientSocket::ClientSocket(int fd, Duration write_timeout)
    : fd_(fd), write_timeout_(write_timeout) {
  // A token's chunk must leave at once, not wait for the acknowledgement of the one before.
  const int on = 1;
  ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

ClientSocket::~ClientSocket() {
  ::close(fd_);
}

// poll, not select: with many connections a descriptor may be above FD_SETSIZE.
bool ClientSocket::wait(short events, TimePoint deadline) const {
  for (;;) {
    const auto now = std::chrono::steady_clock::now();
    pollfd entry{fd_, events, 0};
    const int ready = ::poll(&entry, 1, deadline > now ? poll_ms(deadline - now) : 0);
    if (ready > 0) return true;
    if (ready == 0 && std::chrono::steady_clock::now() >= deadline) return false;
    if (ready < 0 && errno != EINTR) return false;
  }
}

bool ClientSocket::wait_readable(Duration timeout) {
  return buffered_from_ < buffer_.size() ||
         wait(POLLIN | POLLRDHUP, std::chrono::steady_clock::now() + timeout);
}

long ClientSocket::read(char* into, std::size_t size) {
  if (buffered_from_ == buffer_.size()) {
    buffer_.resize(kReadBytes);
    buffered_from_ = 0;
    long received = -1;
    for (;;) {
      received = ::recv(fd_, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
      if (received >= 0) break;
      if (errno == EINTR) continue;
      if ((errno != EAGAIN && errno != EWOULDBLOCK) || !wait(POLLIN | POLLRDHUP, read_deadline_))
        break;
    }
    buffer_.resize(received > 0 ? static_cast<std::size_t>(received) : 0);
    if (received <= 0) return received;
  }
  const std::size_t count = std::min(size, buffer_.size() - buffered_from_);
  std::memcpy(into, buffer_.data() + buffered_from_, count);
  buffered_from_ += count;
  return static_cast<long>(count);
}

bool ClientSocket::write_all(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto sent = ::send(fd_, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (!wait(POLLOUT, std::chrono::steady_clock::now() + write_timeout_)) return false;
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

bool ClientSocket::client_gone() const {
  pollfd entry{fd_, POLLRDHUP, 0};
  if (::poll(&entry, 1, 0) <= 0) return false;
  return (entry.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)) != 0;
}

std::string ClientSocket::peer_address(int* port) const {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  if (::getpeername(fd_, reinterpret_cast<sockaddr*>(&address), &length) != 0) return {};
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address.ss_family == AF_INET) {
    const auto* in = reinterpret_cast<const sockaddr_in*>(&address);
    *port = ntohs(in->sin_port);
    ::inet_ntop(AF_INET, &in->sin_addr, text.data(), text.size());
  } else if (address.ss_family == AF_INET6) {
    const auto* in = reinterpret_cast<const sockaddr_in6*>(&address);
    *port = ntohs(in->sin6_port);
    ::inet_ntop(AF_INET6, &in->sin6_addr, text.data(), text.size());
  }
  return text.data();
}

void ClientSocket::interrupt() {
  ::shutdown(fd_, SHUT_RDWR);
}

void ClientSocket::linger(std::size_t max_bytes, Duration timeout) {
  ::shutdown(fd_, SHUT_WR);
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  std::array<char, kReadBytes> sink{};
  while (max_bytes > 0) {
    if (!wait(POLLIN | POLLRDHUP, deadline)) return;
    const auto received = ::recv(fd_, sink.data(), sink.size(), MSG_DONTWAIT);
    if (received == 0 || (received < 0 && errno != EINTR && errno != EAGAIN)) return;
    if (received > 0) max_bytes -= std::min(max_bytes, static_cast<std::size_t>(received));
  }
}

}  // namespace tandem
