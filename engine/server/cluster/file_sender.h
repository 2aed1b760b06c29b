// Files as bodies of responses: read by threads of its own, a block ahead of what the connection
// pulls, so that neither the connections' threads wait for a disk nor a large file lies in memory.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "base/http/http_message.h"
#include "base/http/worker_lane.h"
#include "engine/service/service.h"

namespace tandem {

// Thread-safe. Outlives what it has given.
class FileSender {
 public:
  // So many are sent at once: what engines send each other leaves disk and link to requests.
  static constexpr int kMostAtOnce = 4;

  FileSender();
  ~FileSender();
  FileSender(const FileSender&) = delete;
  FileSender& operator=(const FileSender&) = delete;

  // file.size() bytes; its last ones come only if the file is then still the one of the identity,
  // else the body breaks. Null: so many are being sent already.
  std::unique_ptr<BodySource> send(AdapterFile file);

 private:
  struct Transfer;
  class Source;
  using Place = std::unique_ptr<std::atomic<int>, void (*)(std::atomic<int>*)>;

  std::atomic<int> under_way_{0};
  std::once_flag started_;  // of the threads: few servers ever send one
  WorkerLane lane_;         // reads
};

}  // namespace tandem
