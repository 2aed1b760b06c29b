// One thread's loop: posted steps, timers and socket events, one after another. Code on the loop
// needs no lock and must not block.
#pragma once

#include <functional>
#include <memory>

#include "base/clock.h"

namespace boost::asio {
class io_context;
}

namespace tandem {

class EventLoop {
 public:
  EventLoop();
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // Runs until stop(); may be called once. Exceptions from a step are logged, and the loop goes on.
  void run();
  // Thread-safe. On return, each step posted before has run or never will.
  void stop();
  // Thread-safe. After stop(), steps are dropped.
  void post(std::function<void()> step);

  // For the sources in this folder.
  boost::asio::io_context& io();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Calls `expired` on the loop. All but the constructor must run on the loop's thread, or while the
// loop does not run. `expired` may destroy the timer.
class LoopTimer {
 public:
  LoopTimer(EventLoop& loop, std::function<void()> expired);
  ~LoopTimer();  // no calls after this
  LoopTimer(const LoopTimer&) = delete;
  LoopTimer& operator=(const LoopTimer&) = delete;

  void start(Duration after);  // replaces an earlier start
  void cancel();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace tandem
