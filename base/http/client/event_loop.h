// One thread's loop: what is posted to it, timers and sockets' news, one after the other. What runs
// on it needs no lock and must not block.
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

  // Runs what comes until stop(). Once. What a step throws is logged, and the loop goes on.
  void run();
  // Thread-safe. What was posted before has run, or never will.
  void stop();
  // Thread-safe. After stop() it is dropped.
  void post(std::function<void()> step);

  // For the sources of this folder.
  boost::asio::io_context& io();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Calls `expired` on the loop. All but the constructor on the loop's thread, or while the loop does
// not run. May be destroyed by what it calls.
class LoopTimer {
 public:
  LoopTimer(EventLoop& loop, std::function<void()> expired);
  ~LoopTimer();  // it calls no more
  LoopTimer(const LoopTimer&) = delete;
  LoopTimer& operator=(const LoopTimer&) = delete;

  void start(Duration after);  // what was started before is forgotten
  void cancel();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace tandem
