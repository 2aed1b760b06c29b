// A thread that calls the registry repeatedly and continues while the registry does not answer.
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
  // Calls `step` on its own thread, again immediately after a success and half a second after a
  // failure. The log reports an outage once, again if its kind changes, and once when it is over.
  // `step` should take no longer than a registry's watch. `is_out`: there is an outage already, and
  // it has been logged.
  RegistryLoop(std::string name, std::function<Status()> step, bool is_out = false);
  // Waits for the current step.
  ~RegistryLoop();
  RegistryLoop(const RegistryLoop&) = delete;
  RegistryLoop& operator=(const RegistryLoop&) = delete;

 private:
  void run();
  bool goes_on() const;

  const std::string name_;  // of the thread
  const std::function<Status()> step_;
  StatusCode told_;  // the logged state; used only by the thread
  mutable std::mutex mutex_;
  std::condition_variable ends_;
  bool ending_ = false;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace tandem
