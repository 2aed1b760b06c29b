#include "base/http/sockets/client_socket.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <system_error>

namespace tandem {
namespace {

constexpr int kKeepAliveS = 60;

bool would_block() {
  return errno == EAGAIN || errno == EWOULDBLOCK;
}

}  // namespace

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

ClientSocket::ClientSocket(Strand strand, Descriptor accepted, bool is_ipv6)
    : strand_(std::move(strand)), socket_(strand_) {
  using boost::asio::ip::tcp;
  const auto set = [&accepted](int level, int name, int value) {
    ::setsockopt(accepted.get(), level, name, &value, sizeof(value));
  };
  // A token's chunk must leave at once instead of waiting for the previous acknowledgement.
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  // A client whose machine has vanished sends nothing, so without this a stream would wait for
  // ever.
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, kKeepAliveS);
  set(IPPROTO_TCP, TCP_KEEPINTVL, kKeepAliveS / 4);
  set(IPPROTO_TCP, TCP_KEEPCNT, 4);
  boost::system::error_code failure;
  socket_.assign(is_ipv6 ? tcp::v6() : tcp::v4(), accepted.get(), failure);
  if (failure) {
    throw std::system_error(failure.value(), std::generic_category(), "a connection's socket");
  }
  accepted.release();
}

ClientSocket::Io ClientSocket::read(std::string& into, std::size_t max_bytes) {
  static thread_local std::array<char, 65536> block;
  for (;;) {
    const auto count = ::recv(socket_.native_handle(), block.data(),
                              std::min(max_bytes, block.size()), MSG_DONTWAIT);
    if (count > 0) {
      into.append(block.data(), static_cast<std::size_t>(count));
      return Io::some;
    }
    if (count == 0) return Io::end;
    if (errno != EINTR) return would_block() ? Io::blocked : Io::broken;
  }
}

ClientSocket::Io ClientSocket::write(std::string_view& bytes) {
  for (;;) {
    const auto count =
        ::send(socket_.native_handle(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(count));
      return Io::some;
    }
    if (errno != EINTR) return would_block() ? Io::blocked : Io::broken;
  }
}

bool ClientSocket::is_broken() {
  pollfd look = {socket_.native_handle(), 0, 0};
  return ::poll(&look, 1, 0) > 0;
}

void ClientSocket::bound_unsent(int bytes) {
  ::setsockopt(socket_.native_handle(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bytes, sizeof(bytes));
}

std::optional<std::uint32_t> ClientSocket::window() {
  // The offset of tcpi_snd_wnd in Linux's tcp_info; the C library's struct ends before it.
  constexpr std::size_t kPlace = 228;
  std::array<std::byte, kPlace + sizeof(std::uint32_t)> info{};
  auto bytes = static_cast<socklen_t>(info.size());
  if (::getsockopt(socket_.native_handle(), IPPROTO_TCP, TCP_INFO, info.data(), &bytes) != 0 ||
      bytes < info.size()) {
    return std::nullopt;
  }
  std::uint32_t window = 0;
  std::memcpy(&window, info.data() + kPlace, sizeof(window));
  int on_its_way = 0;
  if (::ioctl(socket_.native_handle(), SIOCOUTQ, &on_its_way) != 0) return std::nullopt;
  return window - std::min(window, static_cast<std::uint32_t>(on_its_way));
}

void ClientSocket::end_writing() {
  ::shutdown(socket_.native_handle(), SHUT_WR);
}

void ClientSocket::close() noexcept {
  boost::system::error_code ignored;
  socket_.close(ignored);
}

}  // namespace tandem
