// Reads the adapters that the host tier has dropped: from their folders, or as sums of the adapters
// of a set, layer by layer. Others may use them meanwhile (AdapterReading).
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "base/file/file.h"
#include "base/status.h"
#include "cpu_lora/topology/plan/reader_plan.h"
#include "engine/adapters/cold_start_log.h"
#include "engine/adapters/host_tier.h"
#include "engine/adapters/served_adapter.h"
#include "engine/loader/peft/peft_reader.h"
#include "engine/loader/thread_team.h"
#include "engine/model/spec/model_spec.h"

namespace tandem {

struct AdapterReaderOptions {
  std::int64_t (*now_ns)() = unix_now_ns;  // gives the age of files (FileIdentity::vouches)
  LinkRule links = {};                     // for adapters' folders
  ColdStartLog* cold_starts = nullptr;     // records readings; outlives the reader
  ReaderPlan readers = {};                 // the cores of the threads that read
};

// A thread and its team. Thread-safe.
class AdapterReader {
 public:
  // `spec` outlives the reader. `tell` is called when an adapter was read or soon will be.
  AdapterReader(const ModelSpec& spec, std::shared_ptr<HostTier> host,
                const AdapterReaderOptions& options, std::function<void()> tell);
  ~AdapterReader();  // as stop()
  AdapterReader(const AdapterReader&) = delete;
  AdapterReader& operator=(const AdapterReader&) = delete;
  // Ends the thread; first end the waits for the host tier's room (RoomSignal::end).
  void stop();

  // Queues an adapter that is not in the host tier, unless it is queued. A failure is in
  // AdapterHome::read_failure().
  void request(const AdapterLease& adapter);

  // The number of successful readings whose content was checked by its digest.
  std::uint64_t hashed_reads() const { return hashed_reads_.load(std::memory_order_relaxed); }
  // A number for a new AdapterReading.
  std::uint32_t next_generation();

 private:
  using LayerThere = std::function<void(std::size_t layer)>;
  void loop();
  void read_and_tell(ServedAdapter& adapter) noexcept;
  Status read_again(ServedAdapter& adapter);
  Status read_folder(ServedAdapter& adapter, std::byte* target, const LayerThere& layer_there);
  Status read_sum(const ServedAdapter& sum, std::byte* target, const LayerThere& layer_there);
  Result<AdapterBytes> bytes_of(ServedAdapter& adapter);
  static Status explain(const ServedAdapter& adapter, const Result<RereadOutcome>& read);

  const ModelSpec* spec_;
  const std::shared_ptr<HostTier> host_;
  const AdapterReaderOptions options_;
  const std::function<void()> tell_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<AdapterLease> reads_;  // guarded by mutex_, like stopping_
  bool stopping_ = false;
  // relaxed, both: they guard nothing
  std::atomic<std::uint64_t> hashed_reads_{0};
  std::atomic<std::uint32_t> generation_{0};  // of the last reading
  ThreadTeam* team_ = nullptr;                // of the thread
  std::thread thread_;
};

}  // namespace tandem
