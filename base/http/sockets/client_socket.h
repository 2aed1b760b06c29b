// The descriptor of one accepted connection; all waits for it go through Asio's loop.
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

// A file descriptor that is closed unless its new owner takes it.
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

// All but the constructor must be called on its strand.
class ClientSocket {
 public:
  enum class Io {
    some,     // bytes moved
    blocked,  // nothing possible now: wait
    end,      // the client has closed its sending side
    broken,
  };

  ClientSocket(Strand strand, Descriptor accepted, bool is_ipv6);

  const Strand& strand() const { return strand_; }
  const std::shared_ptr<HandlerMemory>& memory() const { return memory_; }
  // Appends the available bytes, at most `max_bytes`.
  Io read(std::string& into, std::size_t max_bytes);
  // Writes as much as fits, and removes it from the front.
  Io write(std::string_view& bytes);
  // From now on, the kernel accepts at most this many bytes beyond the client's window, so that an
  // unread stream is noticed before the kernel holds megabytes of it.
  void bound_unsent(int bytes);
  // The number of bytes for which the client's kernel last reported space, minus those not yet
  // acknowledged: it shrinks if the client does not read. Nothing: this kernel does not provide
  // it.
  std::optional<std::uint32_t> window();
  void end_writing();
  void close() noexcept;  // waiting handlers get an error

  // Handlers get an error_code and run on the strand.
  template <typename Handler>
  void wait_readable(Handler&& handler) {
    socket_.async_wait(Socket::wait_read, WithMemory(memory_, std::forward<Handler>(handler)));
  }
  template <typename Handler>
  void wait_writable(Handler&& handler) {
    socket_.async_wait(Socket::wait_write, WithMemory(memory_, std::forward<Handler>(handler)));
  }
  // Waits for a reset, the only thing that may come after the client's end. The wait may end early:
  // a pending Asio event for a closed connection, whose descriptor this one has reused, ends all
  // waits. So check is_broken() afterwards.
  template <typename Handler>
  void wait_broken(Handler&& handler) {
    socket_.async_wait(Socket::wait_error, WithMemory(memory_, std::forward<Handler>(handler)));
  }
  // True if it was reset or given up by the kernel; not if the client only closed its sending side.
  bool is_broken();

 private:
  using Socket = boost::asio::basic_stream_socket<boost::asio::ip::tcp, Strand>;

  Strand strand_;
  std::shared_ptr<HandlerMemory> memory_ = std::make_shared<HandlerMemory>();
  Socket socket_;
};

}  // namespace tandem
