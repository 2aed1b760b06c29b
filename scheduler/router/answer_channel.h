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
  // Bytes that wait for a client beyond which the loop is to stop reading from the engine.
  static constexpr std::size_t kFullBytes = 32U << 10;

  // Makes the whole response, on a worker, where it may take its time.
  using Make = std::function<HttpResponse()>;

  // The response of the server, which is the other end. Once.
  static HttpResponse defer(const std::shared_ptr<AnswerChannel>& channel);

  // The loop's end. What happens after end(), or when the client has gone, is dropped.
  void answer(Make make);
  void begin_stream();
  bool write(std::string_view bytes);  // false: kFullBytes wait; `drained` will be called
  // What a stream says when it has said nothing for a while: a whole event; empty: nothing.
  void set_silence(std::string event);
  void end(bool broken = false);  // broken: the client shall see that something is missing
  // From the server's threads: the client has gone; there is room again. Before defer().
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
  std::string waiting_;           // of a stream; guarded by mutex_
  std::string silence_;           // guarded by mutex_
  bool full_ = false;             // write() has said so; guarded by mutex_
  bool dropped_ = false;          // nobody reads any more; guarded by mutex_
  Make make_;                     // written before state_ is `whole`, read after
  std::mutex wake_mutex_;
  std::function<void()> wake_;  // guarded by wake_mutex_
};

}  // namespace tandem
