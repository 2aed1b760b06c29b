#include "tests/tools/crowd.h"

#include <chrono>
#include <utility>

namespace tandem {

using std::chrono::steady_clock;

bool eventually(const std::function<bool()>& happens, const std::function<void()>& meanwhile) {
  const auto deadline = steady_clock::now() + std::chrono::minutes(1);
  while (!happens()) {
    if (steady_clock::now() > deadline) return false;
    if (meanwhile) meanwhile();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

void Crowd::add(Act act, unsigned seed) {
  threads_.emplace_back([this, act = std::move(act), random = std::mt19937(seed)]() mutable {
    while (!stop_) act(random);
  });
}

void Crowd::stop() {
  stop_ = true;
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void Crowd::count(const std::string& what) {
  const std::lock_guard lock(mutex_);
  ++counts_[what];
}

void Crowd::fail(const std::string& what) {
  const std::lock_guard lock(mutex_);
  if (failure_.empty()) failure_ = what;
  failed_ = true;
  stop_ = true;
}

std::string Crowd::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

std::map<std::string, int> Crowd::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

}  // namespace tandem
