#include <algorithm>
#include <atomic>
#include <exception>
#include <utility>

#include "base/http/connection.h"
#include "base/http/response_head.h"
#include "base/log/log.h"

namespace tandem {
namespace {

constexpr std::size_t kReadBytes = 256U << 10;       // at one step
constexpr std::size_t kMaxWaitingBytes = 64U << 10;  // of pipelined requests that wait
constexpr std::size_t kMaxDiscarded = 256U << 20;    // while lingering
constexpr std::size_t kKeptBytes = 64U << 10;        // a larger buffer is freed after sending
constexpr Duration kLookAgain = std::chrono::milliseconds(2);  // initial interval
constexpr Duration kLookSeldom = std::chrono::milliseconds(100);
constexpr Duration kHeldAtMost = std::chrono::seconds(1);  // routers wait 2 s for statistics
constexpr int kPulls = 8;                                  // at one step; then others are served
// For calls answered faster than this, no probe checks whether the client still reads.
constexpr Duration kProbeAfter = std::chrono::milliseconds(25);

}  // namespace

// An exception on the strand ends only this connection.
void Connection::guard(const std::function<void()>& step) noexcept {
  try {
    if (phase_ != Phase::closed) step();
  } catch (const std::exception& failure) {
    close();
    try {
      log::warning("a connection is closed after an error: {}", failure.what());
    } catch (...) {  // the log has no memory either
    }
  } catch (...) {
    close();
  }
}

// `step` captures at most a word or two, which a std::function holds without allocating.
void Connection::post(std::function<void(Connection&)> step) noexcept {
  (void)post_surely(
      socket_.strand(), socket_.memory(),
      [self = shared_from_this(), step = std::move(step)] { self->guard([&] { step(*self); }); });
}

// Waits for bytes or the client's end, unless the buffer is full.
void Connection::listen() {
  if (listening_ || ended_ || phase_ == Phase::closed || in_.size() >= kMaxWaitingBytes) return;
  listening_ = true;
  socket_.wait_readable([self = shared_from_this()](const auto& failure) {
    self->listening_ = false;
    if (!failure) self->guard([&] { self->on_readable(); });
  });
}

void Connection::on_readable() {
  bool ended = false;
  for (std::size_t left = kReadBytes; left > 0;) {
    const std::size_t before = in_.size();
    // Bytes that cannot be handled yet stay in the kernel's buffer.
    const bool wanted = phase_ == Phase::head || phase_ == Phase::body || phase_ == Phase::idle ||
                        phase_ == Phase::lingering;
    if (!wanted && before >= kMaxWaitingBytes) break;
    const ClientSocket::Io io = socket_.read(in_, left);
    if (io == ClientSocket::Io::blocked) break;
    if (io == ClientSocket::Io::broken) return close();
    ended = io == ClientSocket::Io::end;
    if (ended) break;
    left -= std::min(left, in_.size() - before);
    if (phase_ == Phase::lingering) {
      discarded_ += in_.size();
      in_.clear();
      if (discarded_ > kMaxDiscarded) return close();
    } else {
      advance();
    }
    if (phase_ == Phase::closed) return;
  }
  if (ended) {
    ended_ = true;
    on_end();
  }
  listen();
}

// The client sends no more. It may have gone, or may be waiting for the answer with its sending
// side closed.
void Connection::on_end() {
  switch (phase_) {
    case Phase::idle:
      if (in_.empty()) close();
      return;  // otherwise it is handled after the requests before it
    case Phase::head:
    case Phase::body:
      if (nothing_came()) return close();
      return refuse_request(400, "the request ended early");
    case Phase::handling:
    case Phase::waiting:
    case Phase::sending:
      return watch_half_closed();
    case Phase::lingering:
    case Phase::closed:
      return close();
  }
}

// True if no part of a request came, except an empty line, which some clients append to a body.
bool Connection::nothing_came() const {
  return phase_ == Phase::head && in_.find_first_not_of("\r\n") == std::string::npos;
}

// Sends pending bytes.
void Connection::pump() {
  for (int i = 0; i < kPulls; ++i) {
    if (blocked_ || phase_ == Phase::closed || !flush()) return;
    if (phase_ != Phase::sending) return;
    if (!source_) return finish_response();
    if (held_) return;
    if (is_stream_ && is_unread()) return hold_back();
    if (!pull()) return watch_half_closed();  // the source calls woken() later
  }
  post([](Connection& self) { self.pump(); });
}

// True if everything has been passed to the kernel.
bool Connection::flush() {
  while (!out_.empty()) {
    std::string_view rest(out_);
    rest.remove_prefix(sent_);
    while (!rest.empty()) {
      const ClientSocket::Io io = socket_.write(rest);
      if (io == ClientSocket::Io::some) continue;
      sent_ = out_.size() - rest.size();
      if (io == ClientSocket::Io::broken) {
        close();
        return false;
      }
      blocked_ = true;
      if (phase_ == Phase::sending) set_deadline(context_.options.client_timeout);
      socket_.wait_writable([self = shared_from_this()](const auto& failure) {
        self->blocked_ = false;
        if (failure) return;
        self->guard([&] {
          if (self->phase_ == Phase::sending) self->clear_deadline();
          self->pump();
        });
      });
      return false;
    }
    sent_ = 0;
    if (out_.capacity() > kKeptBytes) out_ = std::string();
    out_.clear();
    out_.swap(tail_);
  }
  return true;
}

// False if there was nothing to pull.
bool Connection::pull() {
  std::string piece;
  const BodySource::Pull pulled = source_->pull(piece);
  if (!piece.empty()) spoke_at_ = SteadyClock().now();
  frame(piece);
  if (pulled == BodySource::Pull::end && chunked_) out_ += kLastChunk;
  cut_off_ = pulled == BodySource::Pull::broken;
  if (pulled == BodySource::Pull::end || cut_off_) source_.reset();
  return pulled != BodySource::Pull::wait || !piece.empty();
}

void Connection::frame(std::string_view bytes) {
  if (bytes.empty()) return;  // an empty chunk would end the body
  if (chunked_) {
    append_chunk(out_, bytes);
  } else {
    out_ += bytes;
  }
}

// The kernel of a client that does not read still accepts 200 KB, after which this side no longer
// sees the bytes as unsent: a stream of short events would be a thousand tokens ahead of its
// reader. So this function uses the client's receive window, which shrinks by what the client has
// not read. Half of it is left open, because a kernel reports reads by itself only if the window
// doubles.
bool Connection::is_unread() {
  const std::optional<std::uint32_t> window = socket_.window();
  if (!window) return false;
  widest_ = std::max(widest_, *window);
  return *window < widest_ / 2;
}

// Stops pulling until the client has read. A kernel short of memory narrows windows as well, so
// after a while the current window counts as the full one, and no stream stops for good.
void Connection::hold_back() {
  const TimePoint now = SteadyClock().now();
  if (!held_) held_since_ = now;
  held_ = true;
  hold_timer_.expires_after(std::clamp<Duration>(now - held_since_, kLookAgain, kLookSeldom));
  hold_timer_.async_wait(
      WithMemory(socket_.memory(), [self = shared_from_this()](const auto& failure) {
        if (failure) return;
        self->guard([&] {
          if (SteadyClock().now() - self->held_since_ >= kHeldAtMost) self->widest_ = 0;
          if (self->is_unread()) return self->hold_back();
          self->held_ = false;
          self->pump();
        });
      }));
}

// One timer per stream instead of one per event: if the stream has sent something meanwhile, the
// timer is set again for the rest.
void Connection::watch_silence() {
  silence_timer_.expires_at(spoke_at_ + context_.options.silence);
  silence_timer_.async_wait(
      WithMemory(socket_.memory(), [self = shared_from_this()](const auto& failure) {
        if (failure) return;
        self->guard([&] {
          if (self->phase_ != Phase::sending || !self->source_) return;
          const TimePoint now = SteadyClock().now();
          if (now - self->spoke_at_ < self->context_.options.silence) return self->watch_silence();
          self->spoke_at_ = now;
          if (!self->blocked_) {
            self->frame(self->source_->on_silence());
            self->pump();
          }
          if (self->phase_ == Phase::sending && self->source_) self->watch_silence();
        });
      }));
}

void Connection::watch_half_closed() {
  if (!ended_) return;
  if (!watching_) {
    watching_ = true;
    socket_.wait_broken([self = shared_from_this()](const auto& failure) {
      if (failure) return;
      self->guard([&] {
        if (self->socket_.is_broken()) return self->close();
        self->watching_ = false;
        self->watch_half_closed();
      });
    });
  }
  if (probed_) return;
  probed_ = true;
  probe_timer_.expires_after(kProbeAfter);
  probe_timer_.async_wait(
      WithMemory(socket_.memory(), [self = shared_from_this()](const auto& failure) {
        if (!failure) self->guard([&] { self->probe(); });
      }));
}

// The machine of a client that has gone answers any bytes with a reset. A client that has only
// closed its sending side skips an interim response, and bytes without meaning in a stream.
void Connection::probe() {
  if (phase_ == Phase::handling || phase_ == Phase::waiting) {
    if (reader_.framing().http_1_0) return;  // HTTP/1.0 has no interim responses
    out_ += kContinue;
  } else if (phase_ == Phase::sending && source_ && !blocked_) {
    frame(source_->filler());
  } else {
    return;
  }
  pump();
}

std::function<void()> Connection::make_wake() {
  // The weak pointer is locked on the strand and not by the caller, where dropping the last
  // reference would destroy the very source that is calling.
  return [weak = weak_from_this(), strand = socket_.strand(), memory = socket_.memory(),
          pending = std::make_shared<std::atomic<bool>>(false)] {
    if (pending->exchange(true)) return;
    const bool posted = post_surely(strand, memory, [weak, pending] {
      pending->store(false);
      if (const auto self = weak.lock()) self->guard([&] { self->woken(); });
    });
    if (!posted) pending->store(false);  // the next wake-up may find memory
  };
}

void Connection::woken() {
  if (phase_ == Phase::waiting) return wait_for_deferred();
  if (phase_ == Phase::sending && source_) pump();
}

void Connection::linger(Duration patience) {
  if (ended_) return close();
  patience_ = patience;
  socket_.end_writing();
  in_ = std::string();
  enter(Phase::lingering);
  listen();
}

void Connection::set_deadline(Duration after) {
  deadline_.expires_after(after);
  deadline_.async_wait(WithMemory(
      socket_.memory(), [self = shared_from_this(), id = ++deadline_id_](const auto& failure) {
        if (!failure && id == self->deadline_id_) self->guard([&] { self->expired(); });
      }));
}

void Connection::clear_deadline() {
  ++deadline_id_;
  deadline_.cancel();
}

void Connection::expired() {
  if ((phase_ == Phase::head || phase_ == Phase::body) && !nothing_came()) {
    return refuse_request(408, "the request did not arrive in time");
  }
  close();
}

void Connection::close() noexcept {
  if (phase_ == Phase::closed) return;
  phase_ = Phase::closed;
  source_.reset();
  deferred_.reset();
  guard_.reset();
  try {
    clear_deadline();
    probe_timer_.cancel();
    silence_timer_.cancel();
    hold_timer_.cancel();
  } catch (...) {  // they only hold this connection until they expire
  }
  socket_.close();
  context_.ended(*this);
}

}  // namespace tandem
