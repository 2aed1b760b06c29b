// The client's TLS: its trusted authorities, and one secured connection.
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

// Shared with the handlers of its operations, because Asio requires it to outlive them.
struct TlsStream {
  TlsStream(boost::asio::io_context& io, boost::asio::ssl::context& context)
      : stream(io, context) {}

  // Sets the name or address that the certificate must match, before the handshake. False: invalid.
  bool expect_host(const std::string& host);
  // The reason for a failed handshake.
  std::string why_refused(const boost::system::error_code& failure);

  boost::asio::ssl::stream<boost::asio::ip::tcp::socket> stream;
  std::array<char, 16U << 10> block;  // received bytes; no TLS record is larger
};

// The TLS context that one client's connections share; created by the first.
class TlsContext {
 public:
  std::shared_ptr<TlsStream> stream(boost::asio::io_context& io);

 private:
  std::optional<boost::asio::ssl::context> context_;
};

}  // namespace tandem
