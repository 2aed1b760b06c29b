// The sources of an adapter's bytes for the device: its folder, its bytes in the host tier, and the
// reading of the folder into the host tier. Also the adapter's state, which both tiers change.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "base/file/folder.h"
#include "base/status.h"
#include "engine/adapters/adapter_reading.h"
#include "engine/adapters/host_tier.h"
#include "engine/adapters/residency.h"
#include "engine/loader/adapter.h"

namespace tandem {

// The state of one adapter, changed by the host tier (any thread) and the device tier (engine
// thread). Thread-safe.
class ResidencyState {
 public:
  Residency now() const { return state_.load(std::memory_order_relaxed); }

  void apply(ResidencyEvent event);  // aborts on a pair that next() does not allow
  // Begins a copy of the bytes to the device. Returns false, and changes nothing, if the bytes have
  // left the host tier, because their reading failed meanwhile.
  bool begin_load();
  void entered_host();  // marks it as read, if it was on disk
  void left_host();     // marks it as dropped, unless the device holds it
  void evicted();       // to the host tier or to disk
  void load_failed();   // to the host tier or to disk

 private:
  void set(ResidencyEvent event);  // the only function that sets state_; requires mutex_

  std::mutex mutex_;                                  // serialises the changes
  std::atomic<Residency> state_{Residency::on_disk};  // relaxed: readers do not act on it
  bool in_host_ = false;
};

// Thread-safe.
class AdapterHome {
 public:
  struct Folder {
    std::string path;
    std::shared_ptr<const PeftSource> source;  // its files when they were read; null: unknown
  };
  struct Copy {
    AdapterBytes bytes;                       // null: on disk, or not usable
    std::shared_ptr<AdapterReading> reading;  // null: the copy is complete
  };

  // `bytes`: in the host tier; null: not read yet. `may_drop`: the folder can restore the bytes.
  AdapterHome(AdapterBytes bytes, Folder folder, bool may_drop, std::shared_ptr<HostTier> host);
  ~AdapterHome();
  AdapterHome(const AdapterHome&) = delete;
  AdapterHome& operator=(const AdapterHome&) = delete;

  ResidencyState& state() { return *state_; }
  const ResidencyState& state() const { return *state_; }

  Folder folder() const;
  void set_folder(Folder folder);       // another folder with the same contents
  void set_source(const Folder& seen);  // unless the path has changed since
  // Another one after each set_folder(), as the files beside the weights may have changed.
  std::shared_ptr<const void> folder_identity() const;

  // The copy in the host tier, which becomes the most recently used.
  Copy copy() const;
  // If memory runs out, throws and changes nothing.
  void put(AdapterBytes bytes, std::shared_ptr<AdapterReading> reading = nullptr);

  // Begins a reading of the folder, and forgets the last failure. Returns false if one has begun
  // already, or none is needed.
  bool begin_reading();
  // Like a begin_reading() that returned true, for a folder that its reader also fills. Until
  // end_reading() the adapter may be put here and taken back any number of times, and sequences
  // that used it then start anew. Call it before others see the adapter.
  void begin_arriving();
  bool is_arriving() const;
  // The folder that is being filled, which has the files beside the weights and may get another
  // path; null after set_folder().
  void set_arriving_folder(std::shared_ptr<const ::tandem::Folder> folder);
  std::shared_ptr<const ::tandem::Folder> arriving_folder() const;
  // Discards a copy that was put here with a reading.
  void take_back(Status why) noexcept;
  // Ends the reading of the folder. A copy that was put here with a reading is complete, or is
  // discarded on failure.
  void end_reading(Status status) noexcept;
  // The number of readings that have ended. A request notes it when it asks for the adapter, as
  // readings that ended before do not answer it.
  std::uint64_t num_readings() const;
  // Why the last reading failed, if more than `after` have ended; ok: it did not fail, or another
  // has begun.
  Status read_failure(std::uint64_t after) const;

 private:
  void drop_bad_copy(HostTier::Id bad) noexcept;

  const bool may_drop_;
  const std::shared_ptr<HostTier> host_;
  const std::shared_ptr<ResidencyState> state_ = std::make_shared<ResidencyState>();

  mutable std::mutex mutex_;  // guards the members below
  Folder folder_;
  std::shared_ptr<const void> folder_identity_ = std::make_shared<char>();
  std::shared_ptr<const ::tandem::Folder> arriving_folder_;
  HostTier::Id host_id_ = 0;
  std::shared_ptr<AdapterReading> reading_copy_;  // of the copy in the host tier, until it ends
  bool reading_ = false;                          // requested from the disk thread, or arriving_
  bool arriving_ = false;
  std::uint64_t num_readings_ = 0;
  Status read_failure_;
};

}  // namespace tandem
