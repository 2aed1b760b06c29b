// One connection: requests read, given to the handler, and answered in order.
//
//   idle -> head -> body -> handling -> sending -> idle ...
//                             ^   v        v
//                          waiting      lingering -> closed
//
// Everything but the constructor, begin(), refuse() and break_off() runs on the socket's strand. In
// the phase `handling`, only the worker that runs the handler uses `request` and `result_`.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/http/connection_context.h"
#include "base/http/http_message.h"
#include "base/http/request_reader.h"
#include "base/http/sockets/client_socket.h"

namespace tandem {

class Connection final : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Strand strand, Descriptor accepted, bool is_ipv6, ConnectionContext& context);
  ~Connection();

  // Starts serving. Callable once, from any thread.
  void begin();
  // Instead of begin(): answers 503 and closes; the client gets `patience` to read the answer.
  void refuse(Duration patience);
  // Closes at once. Callable from any thread.
  void break_off();

 private:
  enum class Phase { idle, head, body, handling, waiting, sending, lingering, closed };

  // connection.cpp: requests
  void enter(Phase phase);
  void begin_request();
  void advance();
  void take_head();
  void take_body();
  void refuse_request(int status, std::string_view reason);
  void call_handler();
  void unpack();
  void run_on_worker(WorkerLane& lane, std::function<void(Connection&)> job);
  void wait_for_deferred();
  void answered(HttpResponse response);
  void respond(HttpResponse response);
  void finish_response();

  // connection_io.cpp: bytes
  void guard(const std::function<void()>& step) noexcept;
  void post(std::function<void(Connection&)> step) noexcept;
  void listen();
  void on_readable();
  void on_end();
  bool nothing_came() const;
  void pump();
  bool flush();
  bool pull();
  void frame(std::string_view bytes);
  bool is_unread();
  void hold_back();
  void watch_silence();
  void watch_half_closed();
  void probe();
  std::function<void()> make_wake();
  void woken();
  void linger(Duration patience);
  void set_deadline(Duration after);
  void clear_deadline();
  void expired();
  void close() noexcept;

  ConnectionContext& context_;
  ClientSocket socket_;
  boost::asio::steady_timer deadline_;
  boost::asio::steady_timer probe_timer_;
  boost::asio::steady_timer silence_timer_;
  boost::asio::steady_timer hold_timer_;
  RequestReader reader_;
  Phase phase_ = Phase::idle;

  std::string in_;    // received bytes that are not handled yet
  std::string out_;   // bytes being sent, from sent_ on; then tail_
  std::string tail_;  // a long body, which is not copied behind its head
  std::size_t sent_ = 0;
  std::size_t discarded_ = 0;  // bytes discarded while lingering
  std::uint32_t deadline_id_ = 0;

  std::unique_ptr<BodySource> source_;
  std::unique_ptr<DeferredResponse> deferred_;
  std::shared_ptr<void> guard_;  // the response's guard
  HttpResponse result_;          // set by the worker

  TimePoint spoke_at_{};      // when source_ last produced bytes
  std::uint32_t widest_ = 0;  // widest window of the client; see is_unread()
  TimePoint held_since_{};
  Duration patience_{};     // for lingering; zero: no lingering
  bool listening_ = false;  // a wait for bytes is pending
  bool blocked_ = false;    // a wait for send space is pending
  bool held_ = false;       // a wait for the client to read is pending
  bool ended_ = false;      // the client has closed its sending side
  bool watching_ = false;   // ... and a wait for a reset is pending
  bool probed_ = false;     // ... and was probed for in this exchange
  bool close_ = false;      // close after this response
  bool chunked_ = false;    // this response is chunked
  bool is_stream_ = false;  // this response has no known length
  bool cut_off_ = false;    // this response will stay incomplete
  bool first_ = true;       // the connection's first request
  bool unpacked_ = false;   // a worker has decompressed the body; not yet handled
};

}  // namespace tandem
