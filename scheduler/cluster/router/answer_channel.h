// Carries an answer from the router's loop to the server's threads.
//
//   loop:    answer(...)  or  begin_stream(), write() ..., end()
//   server:  a deferred response until one of the two, then the stream that is pulled
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "base/http/http_message.h"

namespace tandem {

// Thread-safe; the members of each end are called by one thread at a time.
class AnswerChannel {
 public:
  // Waiting bytes of a client from which the loop stops reading from the engine.
  static constexpr std::size_t kFullBytes = 32U << 10;

  // Makes the whole response, on a worker thread, which may block.
  using Make = std::function<HttpResponse()>;

  // Returns the server's response, the other end of the channel. Called once.
  static HttpResponse defer(const std::shared_ptr<AnswerChannel>& channel);

  // The loop's end. Calls after end(), or when the client has gone, have no effect.
  void answer(Make make);
  void begin_stream();
  bool write(std::string_view bytes);  // false: kFullBytes wait; `drained` will be called
  // The event that a silent stream sends: a whole event; if empty, none.
  void set_silence(std::string event);
  void end(bool broken = false);  // broken: the client sees that the answer is incomplete
  // Called on the server's threads when the client has gone, and when there is room again. Set
  // before defer().
  void on_gone(std::function<void()> gone) { gone_ = std::move(gone); }
  void on_drained(std::function<void()> drained) { drained_ = std::move(drained); }

 private:
  class Deferred;
  class Stream;
  enum class State { waiting, whole, stream, ended, broken };

  void on_ready(std::function<void()> wake);
  void wake();
  bool ready();
  BodySource::Pull pull(std::string& out);
  void drop();
  std::string silence();

  std::function<void()> gone_;
  std::function<void()> drained_;

  std::mutex mutex_;
  State state_ = State::waiting;  // guarded by mutex_
  std::string waiting_;           // bytes of a stream; guarded by mutex_
  std::string silence_;           // guarded by mutex_
  bool full_ = false;             // write() returned false; guarded by mutex_
  bool dropped_ = false;          // the client has gone; guarded by mutex_
  Make make_;                     // written before state_ is `whole`, read after
  std::mutex wake_mutex_;
  std::function<void()> wake_;  // guarded by wake_mutex_
};

}  // namespace tandem
