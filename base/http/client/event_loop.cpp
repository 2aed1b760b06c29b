#include "base/http/client/event_loop.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <exception>
#include <utility>

#include "base/log/log.h"

namespace tandem {

namespace asio = boost::asio;

struct EventLoop::Impl {
  asio::io_context io{1};
  asio::executor_work_guard<asio::io_context::executor_type> work{io.get_executor()};
};

EventLoop::EventLoop() : impl_(std::make_unique<Impl>()) {}
EventLoop::~EventLoop() = default;

void EventLoop::run() {
  for (;;) {
    try {
      impl_->io.run();
      return;
    } catch (const std::exception& failure) {
      log::warning("an event loop continues after an error: {}", failure.what());
    }
  }
}

void EventLoop::stop() {
  impl_->io.stop();
}

void EventLoop::post(std::function<void()> step) {
  asio::post(impl_->io, std::move(step));
}

asio::io_context& EventLoop::io() {
  return impl_->io;
}

struct LoopTimer::State {
  State(EventLoop& loop, std::function<void()> call) : timer(loop.io()), expired(std::move(call)) {}

  asio::steady_timer timer;
  std::function<void()> expired;
  std::uint64_t round = 0;  // number of the last start; an older wait has no effect
};

LoopTimer::LoopTimer(EventLoop& loop, std::function<void()> expired)
    : state_(std::make_shared<State>(loop, std::move(expired))) {}

LoopTimer::~LoopTimer() {
  cancel();
}

void LoopTimer::start(Duration after) {
  state_->timer.expires_after(after);
  state_->timer.async_wait([state = state_, round = ++state_->round](const auto& failure) {
    if (!failure && round == state->round) state->expired();
  });
}

void LoopTimer::cancel() {
  ++state_->round;
  state_->timer.cancel();
}

}  // namespace tandem
