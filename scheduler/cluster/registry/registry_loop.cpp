#include "scheduler/cluster/registry/registry_loop.h"

#include <pthread.h>

#include <chrono>
#include <exception>
#include <utility>

#include "base/log/log.h"

namespace tandem {
namespace {

constexpr std::chrono::milliseconds kPause{500};  // after a failure

}  // namespace

RegistryLoop::RegistryLoop(std::string name, std::function<Status()> step, bool is_out)
    : name_(std::move(name)),
      step_(std::move(step)),
      told_(is_out ? StatusCode::unavailable : StatusCode::ok),
      thread_([this] { run(); }) {}

RegistryLoop::~RegistryLoop() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  ends_.notify_all();
  thread_.join();
}

bool RegistryLoop::goes_on() const {
  const std::lock_guard lock(mutex_);
  return !ending_;
}

void RegistryLoop::run() {
  pthread_setname_np(pthread_self(), name_.c_str());
  while (goes_on()) {
    Status status;
    try {
      status = step_();
    } catch (const std::exception& failure) {  // no memory
      status = error(StatusCode::unavailable, "{}", failure.what());
    }
    if (!status && status.code() != told_) {
      log::warning(
          "registry: {}; the last known entries stay in use, and the registry is asked again",
          status.message());
    }
    if (status && told_ != StatusCode::ok) log::info("the registry answers again");
    told_ = status.code();
    if (status) continue;
    std::unique_lock lock(mutex_);
    ends_.wait_for(lock, kPause, [this] { return ending_; });
  }
}

}  // namespace tandem
