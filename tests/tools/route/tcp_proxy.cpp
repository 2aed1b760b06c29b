#include "tests/tools/route/tcp_proxy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "base/check.h"

namespace tandem {
namespace {

constexpr int kLookMs = 50;  // interval of checks for the end

sockaddr_in here(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

int connect_to(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = here(port);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return fd;
  close(fd);
  return -1;
}

bool send_all(int fd, const char* bytes, std::size_t count) {
  while (count > 0) {
    const ssize_t sent = send(fd, bytes, count, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes += sent;
    count -= static_cast<std::size_t>(sent);
  }
  return true;
}

}  // namespace

struct TcpProxy::Wire {
  Wire(int client_end, int server_end) : client(client_end), server(server_end) {
    const int on = 1;
    for (const int fd : {client, server}) {
      setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    }
  }
  ~Wire() {
    close(client);
    close(server);
  }
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;
  void tear() const {
    shutdown(client, SHUT_RDWR);
    shutdown(server, SHUT_RDWR);
  }

  const int client;
  const int server;
  int pumps = 2;  // running threads; guarded by the proxy's mutex
};

TcpProxy::TcpProxy() : listening_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address = here(0);
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  TANDEM_CHECK(listening_ >= 0 && bind(listening_, any, size) == 0 &&
                   listen(listening_, SOMAXCONN) == 0 && getsockname(listening_, any, &size) == 0,
               "a proxy's port: {}", errno);
  port_ = ntohs(address.sin_port);
  accepts_ = std::thread([this] { accept_all(); });
}

TcpProxy::~TcpProxy() {
  ending_ = true;
  changed_.notify_all();
  accepts_.join();
  close(listening_);
  std::unique_lock lock(mutex_);
  for (const auto& wire : wires_) wire->tear();
  changed_.notify_all();
  changed_.wait(lock, [this] { return pumps_ == 0; });
}

void TcpProxy::cut() {
  const std::lock_guard lock(mutex_);
  cut_ = true;
}

void TcpProxy::heal() {
  const std::lock_guard lock(mutex_);
  cut_ = false;
  changed_.notify_all();
}

void TcpProxy::accept_all() {
  while (!ending_) {
    pollfd ready = {listening_, POLLIN, 0};
    if (poll(&ready, 1, kLookMs) != 1) continue;
    const int client = accept4(listening_, nullptr, nullptr, SOCK_CLOEXEC);
    if (client < 0) continue;
    const int target = target_;
    const int server = target == 0 ? -1 : connect_to(target);
    if (server < 0) {
      close(client);
      continue;
    }
    const auto wire = std::make_shared<Wire>(client, server);
    const std::lock_guard lock(mutex_);
    wires_.insert(wire);
    pumps_ += 2;
    std::thread([this, wire] { pump(wire, wire->client, wire->server); }).detach();
    std::thread([this, wire] { pump(wire, wire->server, wire->client); }).detach();
  }
}

bool TcpProxy::may_pass() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !cut_ || ending_; });
  return !ending_;
}

void TcpProxy::pump(const std::shared_ptr<Wire>& wire, int from, int to) {
  std::array<char, 16384> bytes{};
  for (;;) {
    const ssize_t count = recv(from, bytes.data(), bytes.size(), 0);
    const bool passes = may_pass();
    if (passes && count == 0) {  // the other direction may go on
      shutdown(to, SHUT_WR);
      break;
    }
    if (passes && count > 0 && send_all(to, bytes.data(), static_cast<std::size_t>(count))) {
      continue;
    }
    wire->tear();
    break;
  }
  // Notified under the lock, because the waiting thread may destroy this object once it has the
  // lock.
  const std::lock_guard lock(mutex_);
  if (--wire->pumps == 0) wires_.erase(wire);
  --pumps_;
  changed_.notify_all();
}

}  // namespace tandem
