// The adapters that the engine serves, by name: their contents in the host tier or, when that is
// full, in their folders alone, from which threads read them again when they are asked for: layer
// by layer, seen by others while that goes on (AdapterReading).
//
// Thread-safe. Where on the device they are is DeviceTier's business.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/file.h"
#include "base/status.h"
#include "cpu_lora/topology/reader_plan.h"
#include "engine/adapters/cold_start_log.h"
#include "engine/adapters/host_tier.h"
#include "engine/adapters/served_adapter.h"
#include "engine/loader/adapter.h"
#include "engine/loader/peft/peft_reader.h"
#include "engine/loader/thread_team.h"
#include "engine/service/service.h"
#include "gpu/device.h"

namespace tandem {

struct AdapterStoreOptions {
  std::int32_t max_adapters = 4096;  // names at once
  std::int32_t max_rank = 512;
  std::size_t host_tier_bytes = std::size_t{64} << 20;
  std::int64_t (*now_ns)() = unix_now_ns;    // how old files are (FileIdentity::vouches)
  std::vector<int> host_tier_nodes = {-1};   // HostTier::create
  LinkRule links = {};                       // of adapters' folders
  std::int32_t num_devices = 1;              // that share the model (loader/shard.h)
  std::vector<std::string> base_names = {};  // the model's, as adapters may name it; empty: unknown
  ColdStartLog* cold_starts = nullptr;       // is told of readings; outlives the store
  ReaderPlan readers = {};                   // that read adapters again
};

class AdapterStore {
 public:
  // For a base of this shape. Takes and pins the whole host tier; `device` outlives the store.
  static Result<std::unique_ptr<AdapterStore>> create(Device& device, const ModelSpec& config,
                                                      DType dtype,
                                                      const AdapterStoreOptions& options);
  ~AdapterStore();
  // Ends its thread: after it no more news come. The adapters and their memory stay.
  void stop();

  // Called (on any thread) when a folder was read again, or soon will be, or a name was let go: the
  // engine then has something to look at. Set before the store is used.
  void on_news(std::function<void()> news) { news_ = std::move(news); }

  // What else an adapter needs before it may be served, on the loading thread; see load().
  using Prepare = std::function<Status(const AdapterLease&)>;

  // Reads a PEFT folder into the host tier and serves it under `name`. The name changes hands only
  // when all is there, `prepare` included; on any failure nothing has changed. The same content
  // under the same name is a success; other content is already_exists unless `in_place`, and
  // invalid_argument where `digest` is given and is not its own.
  Status load(const std::string& name, const std::string& path, bool in_place, bool pinned,
              const Prepare& prepare = nullptr, const std::string& digest = {});
  // The same for an adapter that is already in memory (dummy adapters of a benchmark). It has no
  // folder to come back from, and stays in the host tier.
  Status add(const std::string& name, Adapter adapter, bool in_place, bool pinned,
             const Prepare& prepare = nullptr);

  // The name is free at once; leases live on.
  Status unload(const std::string& name);

  AdapterLease find(const std::string& name) const;  // null: no such adapter
  std::vector<AdapterLease> list() const;            // by name
  // GenerationService::adapter_folder().
  AdapterFolder folder_of(const std::string& name) const;
  // GenerationService::open_adapter_file().
  Result<AdapterFile> open_file(const std::string& digest, std::string_view file) const;

  // Asks for an adapter that fell out of the host tier; returns at once, on_news() tells. A failure
  // (the folder is gone, its content has changed) is told by AdapterHome::read_failure().
  void request_read(const AdapterLease& adapter);
  // Of adapters whose folders are being read again, or will be.
  std::int64_t bytes_to_read() const { return host_->cores().to_read(); }

  const HostTier& host_tier() const { return *host_; }
  // Of the readings that ended well, those whose content was proven by its digest, and not by its
  // files being the same as before.
  std::uint64_t hashed_reads() const { return hashed_reads_.load(std::memory_order_relaxed); }
  // Adapters that could be used before the last of their bytes had come (AdapterArrival).
  std::uint64_t early_arrivals() const { return early_arrivals_.load(std::memory_order_relaxed); }

 private:
  friend class AdapterArrival;
  AdapterStore() = default;
  // For arrivals: the name is `adapter`'s from now on, which has none. False: it is another's, or
  // may be soon.
  bool show(const AdapterLease& adapter);
  void hide(const AdapterLease& adapter);  // undoes it, if nobody else has
  std::uint32_t next_generation();
  Status publish(const std::string& name, Adapter adapter, bool reloadable, bool in_place,
                 bool pinned, const Prepare& prepare);
  Status check(const std::string& name, const Adapter& adapter) const;
  std::size_t with_words(std::size_t num_bytes) const;
  void warn_of_other_base(const std::string& name, const Adapter& adapter);
  Status read_again(ServedAdapter& adapter);
  void read_and_tell(ServedAdapter& adapter) noexcept;
  static Status explain(const ServedAdapter& adapter, const Result<RereadOutcome>& read);
  void read_loop();
  void tell() const {
    if (news_) news_();
  }

  ModelSpec config_;
  DType dtype_ = DType::f32;
  AdapterStoreOptions options_;
  std::shared_ptr<HostTier> host_;
  std::function<void()> news_;
  std::mutex load_mutex_;           // one load at a time, from the room for it to its name
  mutable std::mutex names_mutex_;  // guards names_
  std::map<std::string, AdapterLease> names_;
  std::set<std::string> other_bases_;  // that were warned of; guarded by names_mutex_

  std::mutex reads_mutex_;
  std::condition_variable reads_changed_;
  std::deque<AdapterLease> reads_;  // guarded by reads_mutex_, like stopping_
  bool stopping_ = false;
  // relaxed, all of them: they guard nothing
  std::atomic<std::uint64_t> hashed_reads_{0};
  std::atomic<std::uint64_t> early_arrivals_{0};
  std::atomic<std::uint32_t> generation_{0};  // of the last reading
  ThreadTeam* team_ = nullptr;                // of the reading thread
  std::thread reader_;
};

}  // namespace tandem
