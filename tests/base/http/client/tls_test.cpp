// The client under TLS, against a server with a self-signed certificate.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/write.hpp>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "base/http/client/http_client.h"
#include "tests/support/temp_dir.h"

namespace tandem {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using ::testing::HasSubstr;

// A key and its self-signed certificate, for 127.0.0.1 and no name, as PEM.
std::string make_certificate() {
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  const std::unique_ptr<X509, decltype(&X509_free)> made(X509_new(), X509_free);
  X509_set_version(made.get(), 2);
  ASN1_INTEGER_set(X509_get_serialNumber(made.get()), 1);
  X509_gmtime_adj(X509_getm_notBefore(made.get()), -3600);
  X509_gmtime_adj(X509_getm_notAfter(made.get()), 3600);
  X509_set_pubkey(made.get(), key.get());
  X509_NAME* const name = X509_get_subject_name(made.get());
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>("a test"), -1, -1, 0);
  X509_set_issuer_name(made.get(), name);
  const std::unique_ptr<X509_EXTENSION, decltype(&X509_EXTENSION_free)> of(
      X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, "IP:127.0.0.1"),
      X509_EXTENSION_free);
  X509_add_ext(made.get(), of.get(), -1);
  X509_sign(made.get(), key.get(), EVP_sha256());
  const std::unique_ptr<BIO, decltype(&BIO_free)> out(BIO_new(BIO_s_mem()), BIO_free);
  PEM_write_bio_X509(out.get(), made.get());
  PEM_write_bio_PrivateKey(out.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  char* text = nullptr;
  const long size = BIO_get_mem_data(out.get(), &text);
  return {text, static_cast<std::size_t>(size)};
}

// Serves one connection after another, and sends `answer` to each request.
class TlsServer {
 public:
  TlsServer(const std::string& pem, std::string answer)
      : context_(asio::ssl::context::tls_server),
        acceptor_(io_, tcp::endpoint(asio::ip::address_v4::loopback(), 0)),
        answer_(std::move(answer)) {
    context_.use_certificate_chain(asio::buffer(pem));
    context_.use_private_key(asio::buffer(pem), asio::ssl::context::pem);
    accept();
    thread_ = std::thread([this] { io_.run(); });
  }
  ~TlsServer() {
    io_.stop();
    thread_.join();
  }
  TlsServer(const TlsServer&) = delete;
  TlsServer& operator=(const TlsServer&) = delete;

  int port() const { return acceptor_.local_endpoint().port(); }
  int connections() const { return connections_; }  // valid when no call is in flight

 private:
  using Stream = asio::ssl::stream<tcp::socket>;
  struct Peer {
    Peer(asio::io_context& io, asio::ssl::context& context) : stream(io, context) {}
    Stream stream;
    std::string request;
  };

  void accept() {
    const auto peer = std::make_shared<Peer>(io_, context_);
    acceptor_.async_accept(peer->stream.next_layer(), [this, peer](const auto& failed) {
      if (failed) return;
      ++connections_;
      peer->stream.async_handshake(asio::ssl::stream_base::server, [this, peer](const auto& bad) {
        if (!bad) serve(peer);
      });
      accept();
    });
  }
  void serve(const std::shared_ptr<Peer>& peer) {
    asio::async_read_until(peer->stream, asio::dynamic_buffer(peer->request), "\r\n\r\n",
                           [this, peer](const auto& failed, std::size_t size) {
                             if (failed) return;
                             peer->request.erase(0, size);
                             asio::async_write(peer->stream, asio::buffer(answer_),
                                               [this, peer](const auto& bad, std::size_t) {
                                                 if (!bad) serve(peer);
                                               });
                           });
  }

  asio::io_context io_;
  asio::ssl::context context_;
  tcp::acceptor acceptor_;
  const std::string answer_;
  std::atomic<int> connections_ = 0;
  std::thread thread_;
};

struct Heard final : CallEvents {
  explicit Heard(EventLoop& of) : loop(of) {}
  void on_head(const CallHead& got) override { status = got.status; }
  void on_bytes(std::string_view bytes) override { body += bytes; }
  void on_end(CallEnd got, std::string_view why) override {
    end = got;
    reason = why;
    if (then && got == CallEnd::complete) return std::exchange(then, nullptr)();
    loop.stop();
  }

  EventLoop& loop;
  int status = 0;
  std::string body;
  std::optional<CallEnd> end;
  std::string reason;
  std::function<void()> then;  // runs once, instead of ending the loop
};

class Tls : public ::testing::Test {
 protected:
  static constexpr CallDeadlines kPatient{std::chrono::seconds(20), std::chrono::seconds(20),
                                          std::chrono::seconds(20)};

  // Sets the authority that later clients trust.
  void trust(const std::string& pem) {
    const std::string file = dir_.path() / "trusted.pem";
    std::ofstream(file) << pem;
    ::setenv("SSL_CERT_FILE", file.c_str(), 1);
  }
  void TearDown() override { ::unsetenv("SSL_CERT_FILE"); }

  // `times`: the number of calls, one after another.
  void ask(const HttpAddress& address, int times = 1) {
    if (times > 1) {
      heard_.then = [this, address, times] {
        heard_.body.clear();
        ask(address, times - 1);
      };
    }
    call_ = client_.call(address, {}, kPatient, heard_);
    if (times_++ == 0) loop_.run();
  }

  const testing::TempDir dir_;
  EventLoop loop_;
  HttpClient client_{loop_};
  Heard heard_{loop_};
  std::unique_ptr<HttpCall> call_;
  int times_ = 0;
};

TEST_F(Tls, TakesALongAnswerAndUsesTheConnectionAgain) {
  const std::string pem = make_certificate();
  trust(pem);
  std::string body;  // of many records
  for (int i = 0; body.size() < 300'000; ++i) body += std::to_string(i);
  const TlsServer server(
      pem, "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  ask({"127.0.0.1", server.port(), true}, 3);
  ASSERT_EQ(heard_.end, CallEnd::complete) << heard_.reason;
  EXPECT_EQ(heard_.status, 200);
  EXPECT_EQ(heard_.body, body);
  EXPECT_EQ(server.connections(), 1);
}

TEST_F(Tls, RefusesACertificateOfNobodyItTrustsAndSaysWhatToDo) {
  const TlsServer server(make_certificate(), "");
  trust(make_certificate());
  ask({"127.0.0.1", server.port(), true});
  EXPECT_EQ(heard_.end, CallEnd::unreachable);
  EXPECT_THAT(heard_.reason, HasSubstr("SSL_CERT_FILE"));
}

TEST_F(Tls, RefusesACertificateOfAnotherHost) {
  const std::string pem = make_certificate();
  trust(pem);
  const TlsServer server(pem, "");
  ask({"localhost", server.port(), true});
  EXPECT_EQ(heard_.end, CallEnd::unreachable);
  EXPECT_THAT(heard_.reason, HasSubstr("ostname mismatch"));
}

TEST_F(Tls, SaysThatAServerSpeaksNone) {
  asio::io_context io;
  tcp::acceptor acceptor(io, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
  std::thread server([&] {
    tcp::socket socket(io);
    acceptor.accept(socket);
    asio::write(socket, asio::buffer(std::string("HTTP/1.1 400 Bad Request\r\n\r\n")));
  });
  ask({"127.0.0.1", acceptor.local_endpoint().port(), true});
  server.join();
  EXPECT_EQ(heard_.end, CallEnd::unreachable);
  EXPECT_THAT(heard_.reason, HasSubstr("TLS"));
}

TEST_F(Tls, TakesNoAnswerThatWasCutOff) {
  const std::string pem = make_certificate();
  trust(pem);
  auto server = std::make_unique<TlsServer>(pem, "HTTP/1.1 200 OK\r\n\r\nhalf");
  // Ends the server, without TLS's closing message, when the first bytes have arrived.
  struct Ends final : CallEvents {
    Ends(std::unique_ptr<TlsServer>& of, EventLoop& on) : server(of), loop(on) {}
    void on_head(const CallHead&) override {}
    void on_bytes(std::string_view) override { server.reset(); }
    void on_end(CallEnd got, std::string_view) override {
      end = got;
      loop.stop();
    }
    std::unique_ptr<TlsServer>& server;
    EventLoop& loop;
    std::optional<CallEnd> end;
  } events(server, loop_);
  const auto call = client_.call({"127.0.0.1", server->port(), true}, {}, kPatient, events);
  loop_.run();
  EXPECT_EQ(events.end, CallEnd::broken) << "the end of a body without a length has to be told";
}

}  // namespace
}  // namespace tandem
