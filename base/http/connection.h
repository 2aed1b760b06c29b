// One connection: requests read, given to the handler, and answered in order.
//
//   idle -> head -> body -> handling -> sending -> idle ...
//                             ^   v        v
//                          waiting      lingering -> closed
//
// All but the constructor, begin(), refuse() and break_off() runs on the socket's strand; the
// worker that runs the handler has `request` and `result_` to itself while the phase is `handling`.
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

  // Serves. From any thread, once.
  void begin();
  // Says 503 and closes, instead of begin(); gives the client `patience` to read it.
  void refuse(Duration patience);
  // From any thread.
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

  std::string in_;    // received, not yet taken
  std::string out_;   // being sent, from sent_ on; then tail_
  std::string tail_;  // a long body, which is not copied behind its head
  std::size_t sent_ = 0;
  std::size_t discarded_ = 0;  // while lingering
  std::uint32_t deadline_id_ = 0;

  std::unique_ptr<BodySource> source_;
  std::unique_ptr<DeferredResponse> deferred_;
  std::shared_ptr<void> guard_;  // the response's
  HttpResponse result_;          // of the worker

  TimePoint spoke_at_{};      // when source_ said something last
  std::uint32_t widest_ = 0;  // window of the client; see is_unread()
  TimePoint held_since_{};
  Duration patience_{};     // to linger with; zero: not needed
  bool listening_ = false;  // a wait for bytes is under way
  bool blocked_ = false;    // a wait for room is
  bool held_ = false;       // a wait for the client to read is
  bool ended_ = false;      // the client has closed its sending side
  bool watching_ = false;   // ... and a reset is waited for
  bool probed_ = false;     // ... and looked for, in this exchange
  bool close_ = false;      // after this response
  bool chunked_ = false;    // this response
  bool is_stream_ = false;  // this response: of no length that is known
  bool cut_off_ = false;    // this response will never be whole
  bool first_ = true;       // request of this connection
  bool unpacked_ = false;   // a worker has decompressed the body, and the handler has not had it
};

}  // namespace tandem
