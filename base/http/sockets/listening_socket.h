// The socket that a server listens on.
#pragma once

#include <string>

#include "base/status.h"

namespace tandem {

// Owns the descriptor, which programs started by this process do not inherit.
class ListeningSocket {
 public:
  // Port 0: any free one. The error says why it failed.
  static Result<ListeningSocket> open(const std::string& host, int port);
  ListeningSocket(ListeningSocket&& other) noexcept;
  ListeningSocket& operator=(ListeningSocket&&) = delete;
  ~ListeningSocket();

  int fd() const { return fd_; }
  int port() const { return port_; }
  bool is_ipv6() const { return is_ipv6_; }
  int release();  // the caller closes it

 private:
  ListeningSocket(int fd, bool is_ipv6) : fd_(fd), is_ipv6_(is_ipv6) {}

  int fd_;
  int port_ = 0;
  bool is_ipv6_;
};

}  // namespace tandem
