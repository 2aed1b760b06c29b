#include "base/http/client/exchange.h"

#include <sys/socket.h>

#include <boost/asio/connect.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/write.hpp>
#include <cerrno>
#include <utility>

#include "base/http/client/pool.h"

namespace tandem {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

constexpr int kReads = 4;  // per step, so that other connections are served too

TimePoint now() {
  return std::chrono::steady_clock::now();
}

}  // namespace

bool Wire::is_quiet() {
  char byte = 0;
  const auto count = ::recv(socket().native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
}

Exchange::Exchange(HttpClient& client, HttpAddress address, std::string message, bool once,
                   CallDeadlines deadlines, CallEvents& events)
    : client_(client),
      address_(std::move(address)),
      message_(std::move(message)),
      once_(once),
      deadlines_(deadlines),
      events_(&events),
      resolver_(client.loop_.io()),
      timer_(client.loop_.io()) {}

void Exchange::begin() {
  wire_ = client_.pool_->take(address_.text(), now());
  reused_ = wire_ != nullptr;
  if (reused_) return send();
  connect();
}

void Exchange::connect() {
  set_deadline(deadlines_.connect);
  asio::io_context& io = client_.loop_.io();
  wire_ = address_.tls ? std::make_unique<Wire>(io, client_.pool_->tls.stream(io))
                       : std::make_unique<Wire>(io);
  Failure failure;
  const auto literal = asio::ip::make_address(address_.host, failure);
  if (failure) return resolve();
  wire_->socket().async_connect(
      tcp::endpoint(literal, static_cast<unsigned short>(address_.port)),
      [self = shared_from_this()](const Failure& failed) { self->connected(failed); });
}

void Exchange::resolve() {
  resolver_.async_resolve(
      address_.host, std::to_string(address_.port),
      [self = shared_from_this()](const Failure& failed, const tcp::resolver::results_type& found) {
        if (self->done_) return;
        if (failed) return self->connected(failed);
        asio::async_connect(
            self->wire_->socket(), found,
            [self](const Failure& result, const tcp::endpoint&) { self->connected(result); });
      });
}

void Exchange::connected(const Failure& failure) {
  if (done_) return;
  if (failure) return fail(CallEnd::unreachable, failure.message());
  if (wire_->tls) return secure();
  send();
}

void Exchange::secure() {
  const auto tls = wire_->tls;
  if (!tls->expect_host(address_.host)) {
    return fail(CallEnd::unreachable, "TLS: no certificate can be of this host");
  }
  tls->stream.async_handshake(asio::ssl::stream_base::client,
                              [self = shared_from_this(), tls](const Failure& failed) {
                                if (self->done_) return;
                                if (failed)
                                  return self->fail(CallEnd::unreachable, tls->why_refused(failed));
                                self->send();
                              });
}

void Exchange::send() {
  set_deadline(deadlines_.first_byte);
  Failure ignored;
  wire_->socket().set_option(tcp::no_delay(true), ignored);
  // Results of an abandoned connection do not concern the next one. Errors on this connection are
  // found when reading.
  const auto written = [self = shared_from_this(), kept = reused_, tls = wire_->tls](
                           const Failure& failed, std::size_t) {
    if (!failed && kept == self->reused_) self->sent_ = true;
  };
  if (wire_->tls) {
    asio::async_write(wire_->tls->stream, asio::buffer(message_), written);
  } else {
    wire_->socket().non_blocking(true, ignored);
    asio::async_write(wire_->socket(), asio::buffer(message_), written);
  }
  wait_readable();
}

void Exchange::wait_readable() {
  if (done_ || reading_ || paused_) return;
  reading_ = true;
  if (wire_->tls) return read_tls();
  wire_->socket().async_wait(tcp::socket::wait_read,
                             [self = shared_from_this()](const Failure& failed) {
                               self->reading_ = false;
                               if (!failed && !self->done_) self->read();
                             });
}

void Exchange::read() {
  auto& block = client_.pool_->block;
  for (int i = 0; i < kReads && !done_ && !paused_; ++i) {
    Failure failure;
    const std::size_t count = wire_->socket().read_some(asio::buffer(block), failure);
    if (failure == asio::error::would_block || failure == asio::error::try_again) break;
    if (failure) return ended(failure);
    feed({block.data(), count});
    if (count < block.size()) break;  // everything was read; the wait checks again
  }
  wait_readable();
}

// Asio's TLS stream holds bytes that a wait on the socket does not see, and may have to read before
// it can write. So it reads by itself, into its own memory.
void Exchange::read_tls() {
  const auto tls = wire_->tls;
  tls->stream.async_read_some(
      asio::buffer(tls->block),
      [self = shared_from_this(), tls](const Failure& failed, std::size_t count) {
        self->reading_ = false;
        if (self->done_) return;
        if (failed) return self->ended(failed);
        self->feed({tls->block.data(), count});
        self->wait_readable();
      });
}

void Exchange::ended(const Failure& failure) {
  if (failure != asio::error::eof || !began_) return fail(CallEnd::broken, failure.message());
  if (reader_.end() == ResponseReader::State::complete) return finish();
  fail(CallEnd::broken, reader_.refusal());
}

void Exchange::feed(std::string_view bytes) {
  if (!began_) {
    began_ = true;
    // An unfinished write still needs the message.
    if (sent_) message_ = std::string();
  }
  set_deadline(deadlines_.between);
  // The string is moved out for this step, as an event may start another call.
  std::string body = std::move(client_.pool_->body);
  body.clear();
  const ResponseReader::State state = reader_.take(bytes, body);
  HttpClient& client = client_;
  const auto self = shared_from_this();
  if (state == ResponseReader::State::head) set_deadline(deadlines_.first_byte);
  const bool has_head =
      state == ResponseReader::State::body || state == ResponseReader::State::complete;
  if (has_head && !head_told_) {
    head_told_ = true;
    events_->on_head(reader_.head());
  }
  if (!done_ && has_head && !body.empty()) events_->on_bytes(body);
  if (!done_ && state == ResponseReader::State::refused) {
    fail(CallEnd::malformed, reader_.refusal());
  }
  if (!done_ && state == ResponseReader::State::complete) return finish();
  if (!done_) client.pool_->body = std::move(body);
}

void Exchange::finish() {
  const auto self = shared_from_this();
  done_ = true;
  timer_.cancel();
  if (sent_ && reader_.reusable() && !reading_) {
    client_.pool_->keep(address_.text(), std::move(wire_), now());
  }
  close();
  std::exchange(events_, nullptr)->on_end(CallEnd::complete, {});
}

void Exchange::fail(CallEnd end, const std::string& reason) {
  // The kept connection was already closed by the server.
  if (end == CallEnd::broken && reused_ && !began_ && !once_) {
    reused_ = false;
    Failure ignored;
    wire_->socket().close(ignored);  // handlers may keep the TLS stream's socket for a while
    wire_.reset();
    sent_ = false;
    return connect();
  }
  const auto self = shared_from_this();
  done_ = true;
  close();
  std::exchange(events_, nullptr)->on_end(end, reason);
}

void Exchange::abandon() {
  if (done_) return;
  done_ = true;
  events_ = nullptr;
  // Resets the connection, so that a server that still computes the response need not find out by
  // itself.
  Failure ignored;
  if (wire_ != nullptr) wire_->socket().set_option(asio::socket_base::linger(true, 0), ignored);
  close();
}

void Exchange::close() {
  timer_.cancel();
  resolver_.cancel();
  if (wire_ == nullptr) return;
  // Its handlers get an error and see done_; the socket is closed with the last of them.
  Failure ignored;
  wire_->socket().close(ignored);
}

void Exchange::set_paused(bool paused) {
  if (done_ || paused_ == paused) return;
  paused_ = paused;
  if (paused_) return;
  set_deadline(deadlines_.between);
  wait_readable();
}

// The timer keeps running when the deadline moves further away, as with every token: when it
// expires, it checks again.
void Exchange::set_deadline(Duration after) {
  due_ = now() + after;
  if (!armed_ || due_ < armed_until_) arm();
}

void Exchange::arm() {
  armed_ = true;
  armed_until_ = due_;
  timer_.expires_at(due_);
  timer_.async_wait([self = shared_from_this()](const Failure& failed) {
    if (failed || self->done_) return;
    if (self->paused_) self->due_ = now() + self->deadlines_.between;
    if (now() < self->due_) return self->arm();
    const bool connecting = !self->wire_ || !self->reading_;
    self->fail(connecting && !self->began_ ? CallEnd::unreachable : CallEnd::late,
               "a deadline passed");
  });
}

}  // namespace tandem
