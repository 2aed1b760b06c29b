#include "base/http/client/tls.h"

#include <fmt/format.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>

#include <boost/asio/ip/address.hpp>

namespace tandem {

namespace ssl = boost::asio::ssl;

bool TlsStream::expect_host(const std::string& host) {
  SSL* const handle = stream.native_handle();
  boost::system::error_code failure;
  boost::asio::ip::make_address(host, failure);
  const bool is_literal = !failure;
  if (is_literal) return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(handle), host.c_str()) == 1;
  return SSL_set1_host(handle, host.c_str()) == 1 &&
         SSL_set_tlsext_host_name(handle, host.c_str()) == 1;
}

std::string TlsStream::why_refused(const boost::system::error_code& failure) {
  const long verdict = SSL_get_verify_result(stream.native_handle());
  if (verdict == X509_V_OK) return fmt::format("TLS: {}", failure.message());
  return fmt::format(
      "TLS: the server's certificate: {}; the variable SSL_CERT_FILE names a file with the "
      "certificates of authorities to trust",
      X509_verify_cert_error_string(verdict));
}

std::shared_ptr<TlsStream> TlsContext::stream(boost::asio::io_context& io) {
  if (!context_) {
    context_.emplace(ssl::context::tls_client);
    SSL_CTX_set_min_proto_version(context_->native_handle(), TLS1_2_VERSION);
    context_->set_verify_mode(ssl::verify_peer);
    // If there is none, every certificate is rejected.
    boost::system::error_code ignored;
    context_->set_default_verify_paths(ignored);
  }
  return std::make_shared<TlsStream>(io, *context_);
}

}  // namespace tandem
