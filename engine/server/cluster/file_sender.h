// Files as bodies of responses: read by threads of its own, a block ahead of what the connection
// pulls, so that neither the connections' threads wait for a disk nor a large file lies in memory.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <vector>

#include "base/http/http_message.h"
#include "base/http/worker_lane.h"
#include "engine/service/service.h"

namespace tandem {

// Thread-safe. Outlives what it has given.
class FileSender {
 public:
  // So many are sent at once: what engines send each other leaves disk and link to requests.
  static constexpr int kMostAtOnce = 4;
  static constexpr std::chrono::seconds kGrace{60};
  static constexpr double kSlowest = 2e6;  // bytes a second

  FileSender();
  ~FileSender();
  FileSender(const FileSender&) = delete;
  FileSender& operator=(const FileSender&) = delete;

  // file.size() bytes; its last ones come only if the file is then still the one of the identity,
  // else the body breaks. So it does for who reads slower than kSlowest after kGrace, whose place
  // is then another's. Null: so many are being sent already.
  std::unique_ptr<BodySource> send(AdapterFile file);

 private:
  struct Transfer;
  class Source;

  std::mutex mutex_;
  std::vector<std::weak_ptr<Transfer>> under_way_;  // guarded by mutex_
  std::once_flag started_;                          // of the threads: few servers ever send one
  WorkerLane lane_;                                 // reads
};

}  // namespace tandem
