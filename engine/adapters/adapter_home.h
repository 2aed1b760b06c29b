// Where an adapter's bytes come from when the device wants them: its folder, its run in the host
// tier, and the reading from the one into the other. And the adapter's state, on which both tiers
// have a say.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

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

  void apply(ResidencyEvent event);  // aborts on a pair that next() does not know
  // Its bytes are to be copied to the device: false where they have left the host tier, read to a
  // bad end since somebody looked, and nothing has changed.
  bool begin_load();
  void entered_host();  // read, if it was on disk
  void left_host();     // dropped, unless the device holds it
  void evicted();       // to where the host tier says
  void load_failed();   // the same

 private:
  void set(ResidencyEvent event);  // the one setter; mutex_ held

  std::mutex mutex_;                                  // of the changes
  std::atomic<Residency> state_{Residency::on_disk};  // relaxed: readers look, and act on nothing
  bool in_host_ = false;
};

// Thread-safe.
class AdapterHome {
 public:
  struct Folder {
    std::string path;
    std::shared_ptr<const PeftSource> source;  // what its files were; null: unknown
  };
  struct Copy {
    AdapterBytes bytes;                       // null: on disk, or nothing that could be used
    std::shared_ptr<AdapterReading> reading;  // null: all of it is there
  };

  // `bytes` are the host tier's; null: they are not there yet. `may_drop`: the folder can bring
  // them back.
  AdapterHome(AdapterBytes bytes, Folder folder, bool may_drop, std::shared_ptr<HostTier> host);
  ~AdapterHome();
  AdapterHome(const AdapterHome&) = delete;
  AdapterHome& operator=(const AdapterHome&) = delete;

  ResidencyState& state() { return *state_; }
  const ResidencyState& state() const { return *state_; }

  Folder folder() const;
  void set_folder(Folder folder);       // another one with the same contents
  void set_source(const Folder& seen);  // unless it has another path by now

  // What the host tier has, used last from now on.
  Copy copy() const;
  // Throws where there is no memory, and nothing has changed.
  void put(AdapterBytes bytes, std::shared_ptr<AdapterReading> reading = nullptr);

  // The folder is to be read: false when it is already, or need not be. Forgets the last failure.
  bool begin_reading();
  // The folder is filled by somebody who reads it meanwhile, as if begin_reading() had said true:
  // until end_reading() the adapter may be put here and taken back any number of times, and who
  // used what was taken back starts anew. Before others see it.
  void begin_arriving();
  bool is_arriving() const;
  // What was put here with a reading is nothing.
  void take_back(Status why) noexcept;
  // The folder has been read. What was put here with a reading is all there, or is taken back.
  void end_reading(Status status) noexcept;
  // How many readings have ended. Who asks for the adapter notes it, and what ended before is no
  // answer to them.
  std::uint64_t num_readings() const;
  // Why the last reading failed, if it ended after so many had; ok: it did not, or another began.
  Status read_failure(std::uint64_t after) const;

 private:
  void drop_bad_copy(HostTier::Id bad) noexcept;

  const bool may_drop_;
  const std::shared_ptr<HostTier> host_;
  const std::shared_ptr<ResidencyState> state_ = std::make_shared<ResidencyState>();

  mutable std::mutex mutex_;  // guards these
  Folder folder_;
  HostTier::Id host_id_ = 0;
  std::shared_ptr<AdapterReading> reading_copy_;  // of the host tier's, while it goes on
  bool reading_ = false;                          // asked of the disk thread, or arriving_
  bool arriving_ = false;
  std::uint64_t num_readings_ = 0;
  Status read_failure_;
};

}  // namespace tandem
