// One accepted connection's descriptor, which is never waited for but through Asio's loop.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/strand.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/http/sockets/handler_memory.h"

namespace tandem {

// A file descriptor that somebody must take, or it is closed.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(other.release()) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor();

  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

using Strand = boost::asio::strand<boost::asio::io_context::executor_type>;

// On its strand, but for the constructor.
class ClientSocket {
 public:
  enum class Io {
    some,     // bytes moved
    blocked,  // none now: wait
    end,      // the client has closed its sending side
    broken,
  };

  ClientSocket(Strand strand, Descriptor accepted, bool is_ipv6);

  const Strand& strand() const { return strand_; }
  const std::shared_ptr<HandlerMemory>& memory() const { return memory_; }
  // Appends what is there, `max_bytes` at most.
  Io read(std::string& into, std::size_t max_bytes);
  // Writes what fits, and cuts it off the front.
  Io write(std::string_view& bytes);
  // From now on the kernel takes no more than this many bytes beyond what the client has room for:
  // a stream is then known to be unread before megabytes of it are with the kernel.
  void bound_unsent(int bytes);
  // How many bytes the client's kernel has room for, as it has said last, without those that it has
  // not answered yet: less and less where the client does not read. Nothing: this kernel does not
  // tell.
  std::optional<std::uint32_t> window();
  void end_writing();
  void close() noexcept;  // handlers of waits get an error

  // Handlers get an error_code, on the strand.
  template <typename Handler>
  void wait_readable(Handler&& handler) {
    socket_.async_wait(Socket::wait_read, WithMemory(memory_, std::forward<Handler>(handler)));
  }
  template <typename Handler>
  void wait_writable(Handler&& handler) {
    socket_.async_wait(Socket::wait_write, WithMemory(memory_, std::forward<Handler>(handler)));
  }
  // Until the connection is reset, which is all that may come from a client past its end. It may
  // end too soon: an event of Asio's can still be under way for a connection that was closed when
  // this one takes its place, and ends all waits. is_broken() tells.
  template <typename Handler>
  void wait_broken(Handler&& handler) {
    socket_.async_wait(Socket::wait_error, WithMemory(memory_, std::forward<Handler>(handler)));
  }
  // Reset, or given up by the kernel; not, for a client that only closed its sending side.
  bool is_broken();

 private:
  using Socket = boost::asio::basic_stream_socket<boost::asio::ip::tcp, Strand>;

  Strand strand_;
  std::shared_ptr<HandlerMemory> memory_ = std::make_shared<HandlerMemory>();
  Socket socket_;
};

}  // namespace tandem
