// Sends files as bodies of responses. Its own threads read one block ahead of the connection, so
// that connection threads do not wait for the disk and large files are not held in memory.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <vector>

#include "base/http/http_message.h"
#include "base/http/worker_lane.h"
#include "engine/service/service.h"

namespace tandem {

// Thread-safe. Must outlive the bodies that it has returned.
class FileSender {
 public:
  // The limit on concurrent transfers, so that transfers between engines leave disk and network
  // bandwidth to requests.
  static constexpr int kMostAtOnce = 4;
  static constexpr std::chrono::seconds kGrace{60};
  static constexpr double kSlowest = 2e6;  // in bytes per second

  FileSender();
  ~FileSender();
  FileSender(const FileSender&) = delete;
  FileSender& operator=(const FileSender&) = delete;

  // Returns a body of file.size() bytes. The last bytes are sent only if the file still has the
  // given identity; otherwise the body breaks off. It also breaks off for a client that reads
  // slower than kSlowest after kGrace, so that another transfer gets its place. Null: kMostAtOnce
  // transfers are running.
  std::unique_ptr<BodySource> send(AdapterFile file);

 private:
  struct Transfer;
  class Source;

  std::mutex mutex_;
  std::vector<std::weak_ptr<Transfer>> under_way_;  // guarded by mutex_
  std::once_flag started_;                          // threads start late: few servers send files
  WorkerLane lane_;                                 // reads the files
};

}  // namespace tandem
