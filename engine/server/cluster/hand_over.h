// Signals that running answers must end early: the engine hands its relayed calls over to other
// engines, or the server shuts down.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "engine/server/messages/errors.h"

namespace tandem {

// The last line of a stream that another engine is to continue.
inline constexpr const char* kMovedLine = ":moved\n\n";

// 503 "draining": the error of an answer that is cut off when the server ends.
ApiError cut_error();

// 503 "moved": the error of a relayed call that has not sent anything yet.
ApiError moved_error();

// Thread-safe. Must outlive its watchers.
class HandOver {
 public:
  // Asks for the handover until take_back(). Wakes all watchers.
  void ask();
  void take_back() { asked_.store(false, std::memory_order_release); }
  // acquire: pairs with the release in ask(), whose caller has drained the engine before
  bool is_asked() const { return asked_.load(std::memory_order_acquire); }

  // Ends all calls, relayed or not, permanently.
  void cut();
  bool is_cut() const { return cut_.load(std::memory_order_acquire); }  // like is_asked()

  // ask() and cut() call `wake` until the returned handle is destroyed. It must be quick and may
  // not call this object. After the destruction no call is running.
  std::shared_ptr<void> watch(std::function<void()> wake);

 private:
  void wake_all();

  std::atomic<bool> asked_{false};
  std::atomic<bool> cut_{false};
  std::mutex mutex_;
  std::map<std::uint64_t, std::function<void()>> wakes_;  // guarded by mutex_, like next_
  std::uint64_t next_ = 0;
};

}  // namespace tandem
