// TLS of the client: whom it trusts, and one secured connection.
#pragma once

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <memory>
#include <optional>
#include <string>

namespace tandem {

// Shared with the handlers of what it does, which Asio lets it not outlive.
struct TlsStream {
  TlsStream(boost::asio::io_context& io, boost::asio::ssl::context& context)
      : stream(io, context) {}

  // Before the handshake: which name, or address, the certificate has to be of. False: none can be.
  bool expect_host(const std::string& host);
  // After a handshake that failed.
  std::string why_refused(const boost::system::error_code& failure);

  boost::asio::ssl::stream<boost::asio::ip::tcp::socket> stream;
  std::array<char, 16U << 10> block;  // what is read; TLS's records have no more
};

// What the connections of one client share; made by the first.
class TlsContext {
 public:
  std::shared_ptr<TlsStream> stream(boost::asio::io_context& io);

 private:
  std::optional<boost::asio::ssl::context> context_;
};

}  // namespace tandem
