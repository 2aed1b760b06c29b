// Whether answers under way are to end before their time, and who must know it at once: the engine
// hands its relayed calls over to other engines, or the server ends.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "engine/server/messages/errors.h"

namespace tandem {

// The line that ends a stream that another engine is to continue.
inline constexpr const char* kMovedLine = ":moved\n\n";

// 503 "draining": what an answer says that the server's end cuts off.
ApiError cut_error();

// 503 "moved": what a relayed call gets that has told nothing yet.
ApiError moved_error();

// Thread-safe. Outlives those who watch it.
class HandOver {
 public:
  // From now on, until take_back(). Wakes all who watch.
  void ask();
  void take_back() { asked_.store(false, std::memory_order_release); }
  // acquire: pairs with the release in ask(), whose caller has drained the engine before
  bool is_asked() const { return asked_.load(std::memory_order_acquire); }

  // The same for all calls, relayed or not, and for good.
  void cut();
  bool is_cut() const { return cut_.load(std::memory_order_acquire); }  // as is_asked()

  // `wake` is called by ask() and cut() until what is returned goes; it must be quick and may not
  // come back here. When that has gone, no call is under way.
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
