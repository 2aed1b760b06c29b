// One call of the client: connect, send, read.
//
//   connecting (-> TLS) -> sending and reading -> done
//        ^______________________| a kept connection was dead; happens at most once
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <string>
#include <utility>

#include "base/http/client/http_client.h"
#include "base/http/client/response_reader.h"
#include "base/http/client/tls.h"

namespace tandem {

// A connection, in use or kept.
struct Wire {
  explicit Wire(boost::asio::io_context& io) : plain(io) {}
  Wire(boost::asio::io_context& io, std::shared_ptr<TlsStream> stream)
      : plain(io), tls(std::move(stream)) {}
  boost::asio::ip::tcp::socket& socket() { return tls ? tls->stream.next_layer() : plain; }

  boost::asio::ip::tcp::socket plain;
  std::shared_ptr<TlsStream> tls;  // null: plain
  TimePoint idle_since{};

  // True if the server has neither closed the connection nor sent anything unexpected.
  bool is_quiet();
};

class Exchange final : public std::enable_shared_from_this<Exchange> {
 public:
  // `once`: see CallRequest.
  Exchange(HttpClient& client, HttpAddress address, std::string message, bool once,
           CallDeadlines deadlines, CallEvents& events);

  void begin();
  void abandon();  // no more events
  void set_paused(bool paused);

 private:
  using Failure = boost::system::error_code;

  void connect();
  void resolve();
  void connected(const Failure& failure);
  void secure();
  void send();
  void wait_readable();
  void read();
  void read_tls();
  void ended(const Failure& failure);
  void feed(std::string_view bytes);
  void finish();
  void fail(CallEnd end, const std::string& reason);
  void close();

  void set_deadline(Duration after);
  void arm();

  HttpClient& client_;  // not used once done_ is true
  const HttpAddress address_;
  std::string message_;  // the request; kept until the response begins
  const bool once_;      // never send the request twice
  const CallDeadlines deadlines_;
  CallEvents* events_;  // null: abandoned
  std::unique_ptr<Wire> wire_;
  boost::asio::ip::tcp::resolver resolver_;
  boost::asio::steady_timer timer_;
  TimePoint due_{};
  TimePoint armed_until_{};
  bool armed_ = false;
  ResponseReader reader_;
  bool reused_ = false;  // this connection was a kept one
  bool sent_ = false;    // all of message_ was sent
  bool began_ = false;   // the response has begun
  bool head_told_ = false;
  bool reading_ = false;  // a wait for bytes is pending
  bool paused_ = false;
  bool done_ = false;
};

}  // namespace tandem
