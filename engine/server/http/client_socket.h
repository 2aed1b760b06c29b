// One accepted connection: bounded reads and writes, and "is the client still there?".
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace tandem {

// Owns the descriptor. One thread at a time, but for interrupt().
class ClientSocket {
 public:
  // A write that makes no progress for `write_timeout` fails.
  ClientSocket(int fd, Duration write_timeout);
  ~ClientSocket();
  ClientSocket(const ClientSocket&) = delete;
  ClientSocket& operator=(const ClientSocket&) = delete;

  int fd() const { return fd_; }
  // Data is there, or the client has closed; false: nothing within `timeout`.
  bool wait_readable(Duration timeout);
  // Reads fail after this moment, however the bytes trickle in; writes are not concerned.
  void set_read_deadline(TimePoint deadline) { read_deadline_ = deadline; }
  // Bytes read (at least one), 0 at the end, -1 on failure or past the deadline.
  long read(char* into, std::size_t size);
  // All of it, or false.
  bool write_all(std::string_view bytes);
  // The client has closed its side, or the connection broke. Never blocks. A client that only
  // shuts its sending side down counts as gone: HTTP has no use for that.
  bool client_gone() const;
  // The address of the other end; empty when unknown.
  std::string peer_address(int* port) const;

  // Fails what blocks now and later. From any thread.
  void interrupt();
  // Ends our side, then discards what the client still sends (at most `max_bytes`, for at most
  // `timeout`), so that a reset does not destroy the response before the client has read it.
  void linger(std::size_t max_bytes, Duration timeout);

 private:
  bool wait(short events, TimePoint deadline) const;

  int fd_;
  Duration write_timeout_;
  TimePoint read_deadline_ = TimePoint::max();
  std::string buffer_;
  std::size_t buffered_from_ = 0;
};

}  // namespace tandem
