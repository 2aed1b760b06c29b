#include "base/http/sockets/listener.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <exception>
#include <utility>

#include "base/log/log.h"

namespace tandem {
namespace {

constexpr int kAtOnce = 64;  // connections per step
constexpr auto kRetry = std::chrono::milliseconds(100);

int open_spare() {
  return ::open("/dev/null", O_RDONLY | O_CLOEXEC);
}

int accept_one(int listening) {
  return ::accept4(listening, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
}

bool out_of_descriptors() {
  return errno == EMFILE || errno == ENFILE;
}

}  // namespace

Listener::Listener(ListeningSocket socket, const Strand& strand, Admit admit)
    : is_ipv6_(socket.is_ipv6()),
      acceptor_(strand),
      retry_(strand),
      admit_(std::move(admit)),
      spare_(open_spare()) {
  using boost::asio::ip::tcp;
  acceptor_.assign(is_ipv6_ ? tcp::v6() : tcp::v4(), socket.fd());
  socket.release();
}

Listener::~Listener() {
  if (spare_ >= 0) ::close(spare_);
}

void Listener::listen() {
  if (listening_ || !acceptor_.is_open()) return;
  listening_ = true;
  acceptor_.async_wait(boost::asio::socket_base::wait_read,
                       WithMemory(memory_, [this](const auto& failure) {
                         listening_ = false;
                         if (!failure) try_to_accept();
                       }));
}

void Listener::try_to_accept() noexcept {
  try {
    try {
      return accept();
    } catch (const std::exception& trouble) {  // out of memory: the accepted client was closed
      log::warning("a connection could not be accepted: {}", trouble.what());
    }
  } catch (const std::exception&) {  // no memory for the log either
  }
  listen();  // has its own error handling
}

void Listener::accept() {
  for (int i = 0; i < kAtOnce; ++i) {
    const int fd = accept_one(acceptor_.native_handle());
    if (fd >= 0) {
      admit_(Descriptor(fd), false);
    } else if (out_of_descriptors()) {
      return accept_by_spare();
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      break;
    } else if (errno == ENOMEM || errno == ENOBUFS) {
      return retry_later();
    }  // otherwise only that client failed
  }
  listen();
}

void Listener::accept_by_spare() {
  if (spare_ < 0) return retry_later();
  ::close(std::exchange(spare_, -1));
  const int fd = accept_one(acceptor_.native_handle());
  if (fd >= 0) admit_(Descriptor(fd), true);
  retry_later();  // or resume(), once that client has gone
}

void Listener::retry_later() {
  retry_.expires_after(kRetry);
  retry_.async_wait(WithMemory(memory_, [this](const auto& failure) {
    if (!failure) resume();
  }));
}

void Listener::resume() {
  if (!acceptor_.is_open()) return;
  if (spare_ < 0) spare_ = open_spare();
  if (spare_ < 0) return retry_later();
  listen();
}

void Listener::stop() {
  boost::system::error_code ignored;
  acceptor_.close(ignored);
  retry_.cancel();
}

}  // namespace tandem
