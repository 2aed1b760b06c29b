// A thread that asks a registry over and over, and survives that it does not answer.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "base/status.h"

namespace tandem {

class RegistryLoop {
 public:
  // Calls `step` on a thread of its own, again at once after a success and half a second after a
  // failure. The log tells of an outage once, of another
  // kind of it once more, and once when it is over. `step` shall take no longer
  // than a registry's watch. `is_out`: there is an outage already, and the log has it.
  RegistryLoop(std::string name, std::function<Status()> step, bool is_out = false);
  // Waits for the step under way.
  ~RegistryLoop();
  RegistryLoop(const RegistryLoop&) = delete;
  RegistryLoop& operator=(const RegistryLoop&) = delete;

 private:
  void run();
  bool goes_on() const;

  const std::string name_;  // of the thread
  const std::function<Status()> step_;
  StatusCode told_;  // what the log has; of the thread
  mutable std::mutex mutex_;
  std::condition_variable ends_;
  bool ending_ = false;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace tandem
