// Accepts connections, and goes on when the process has no descriptor left.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>

#include "base/http/sockets/client_socket.h"
#include "base/http/sockets/listening_socket.h"

namespace tandem {

// A spare descriptor is kept for the time when there is no other: it admits one more client, who
// gets an error instead of waiting for an answer that never comes. Everything but the constructor
// and the destructor runs on the given strand.
class Listener {
 public:
  // `last`: it was admitted with the spare descriptor, and must leave soon.
  using Admit = std::function<void(Descriptor accepted, bool last)>;

  Listener(ListeningSocket socket, const Strand& strand, Admit admit);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  void listen();
  // A descriptor has become free.
  void resume();
  void stop();

 private:
  void try_to_accept() noexcept;
  void accept();
  void accept_by_spare();
  void retry_later();

  const bool is_ipv6_;
  boost::asio::basic_socket_acceptor<boost::asio::ip::tcp, Strand> acceptor_;
  boost::asio::steady_timer retry_;
  const Admit admit_;
  const std::shared_ptr<HandlerMemory> memory_ = std::make_shared<HandlerMemory>();
  int spare_ = -1;
  bool listening_ = false;
};

}  // namespace tandem
