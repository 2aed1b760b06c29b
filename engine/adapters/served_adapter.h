// One adapter that the engine serves: what it is, where its weights are, who uses it.
//
// Held by shared_ptr: a request's lease keeps it alive through unload and reload. Its device memory
// is DeviceTier's business, on the engine thread; its host memory HostTier's; the state is here.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/adapters/adapter_reading.h"
#include "engine/adapters/host_tier.h"
#include "engine/adapters/residency.h"
#include "engine/base/clock.h"
#include "engine/base/status.h"
#include "engine/loader/adapter.h"
#include "engine/memory/chunk_table.h"
#include "engine/model/llama.h"
#include "gpu/device.h"

namespace tandem {

// The state of one adapter, changed by the host tier (any thread) and the device tier (engine
// thread). Thread-safe.
class ResidencyState {
 public:
  Residency now() const { return state_.load(std::memory_order_relaxed); }

  void apply(ResidencyEvent event);  // aborts on a pair that next() does not know
  void entered_host();               // read, if it was on disk
  void left_host();                  // dropped, unless the device holds it
  void evicted();                    // to where the host tier says
  void load_failed();                // the same

 private:
  void set(ResidencyEvent event);  // the one setter; mutex_ held

  std::mutex mutex_;                                  // of the changes
  std::atomic<Residency> state_{Residency::on_disk};  // relaxed: readers look, and act on nothing
  bool in_host_ = false;
};

// When the parts of a layer are expected on the device.
struct LayerArrival {
  TimePoint a, b;
};

class ServedAdapter {
 public:
  ServedAdapter(std::string name, Adapter contents, bool pinned, bool reloadable,
                std::shared_ptr<HostTier> host);
  ~ServedAdapter();
  ServedAdapter(const ServedAdapter&) = delete;
  ServedAdapter& operator=(const ServedAdapter&) = delete;

  const std::string& name() const { return name_; }
  const Adapter& contents() const { return contents_; }  // without its bytes
  std::uint64_t bytes() const { return contents_.num_bytes; }
  bool pinned() const { return pinned_; }
  std::int64_t loaded_unix() const { return loaded_unix_; }
  Residency residency() const { return state_->now(); }
  std::string path() const { return folder().path; }

  // Its row of the tables. Engine thread; requires that it is on the device or on its way.
  AdapterSlot slot() const;

  // Of what the device's copy is made of: ok as far as is known; waits for the end of a reading
  // that still goes on. While it is not ok nobody may use the copy, or what was computed with it.
  // Engine thread.
  Status device_status() const;
  Status await_device_status() const;
  // Known to be ok: results may be kept for others.
  bool is_proven() const;

  // Unloaded or replaced: goes when the last lease does.
  void retire() { retired_.store(true, std::memory_order_relaxed); }
  bool retired() const { return retired_.load(std::memory_order_relaxed); }

  // For GET /v1/adapters.
  mutable std::atomic<std::int32_t> running{0};
  mutable std::atomic<std::int32_t> waiting{0};
  mutable std::atomic<std::uint64_t> hits{0};
  mutable std::atomic<std::uint64_t> cold_starts{0};

 private:
  friend class AdapterStore;
  friend class DeviceTier;

  struct Folder {
    std::string path;
    std::shared_ptr<const PeftSource> source;  // what its files were; null: unknown
  };
  Folder folder() const;
  void set_folder(Folder folder);       // another one with the same contents
  void set_source(const Folder& seen);  // unless it has another path by now
  struct HostCopy {
    AdapterBytes bytes;                       // null: on disk, or nothing that could be used
    std::shared_ptr<AdapterReading> reading;  // null: all of it is there
  };
  HostCopy host_copy() const;
  void put_into_host(AdapterBytes bytes, std::shared_ptr<AdapterReading> reading = nullptr);
  // The folder has been read. What was put there with a reading is all there, or is taken back.
  void end_reading(const Status& status);

  std::string name_;
  Adapter contents_;
  bool pinned_;
  bool reloadable_;  // its folder can bring it back
  std::int64_t loaded_unix_;
  std::shared_ptr<HostTier> host_;
  std::shared_ptr<ResidencyState> state_ = std::make_shared<ResidencyState>();
  std::atomic<bool> retired_{false};

  mutable std::mutex mutex_;  // guards these
  Folder folder_;
  HostTier::Id host_id_ = 0;
  std::shared_ptr<AdapterReading> reading_copy_;  // of the host tier's, while it goes on
  bool reading_ = false;                          // asked of the disk thread
  Status read_failure_;

  // The engine thread's alone, written by DeviceTier.
  struct OnDevice {
    std::int32_t slot = -1;
    ChunkTable chunks;
    std::uint64_t last_use = 0;  // PagePool::stamp()
    std::int32_t users = 0;      // running sequences
    std::uint64_t wanted = 0;    // DeviceTier's count of turns, when it was last wanted
    bool kept = false;           // never evicted: pinned, or the mode is cached
    std::shared_ptr<AdapterReading> reading;  // what was loaded was still being read; or null
    // While it loads.
    std::uint32_t generation = 0;  // of this load: what its ready words will hold
    AdapterBytes source;
    std::vector<std::unique_ptr<Event>> layers;   // passed when both parts of the layer are there
    std::vector<std::unique_ptr<Event>> b_parts;  // when B is; null: it travels with A
    std::unique_ptr<Event> whole;                 // when all of it is
    std::vector<LayerArrival> arrivals;           // when each layer is expected
    std::vector<std::size_t> ends;                // bytes, by layer
    std::vector<std::uint8_t> queued, sent;       // by layer: bit 0 A, bit 1 B
    std::size_t pieces_left = 0;                  // to be sent
    bool begun = false;                           // a piece has been
  };
  OnDevice device_;
};
using AdapterLease = std::shared_ptr<ServedAdapter>;

}  // namespace tandem
