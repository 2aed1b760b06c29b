// The adapters that the engine serves, by name. Their contents are in the host tier or, when that
// is full, only in their folders, from which they are read when a request asks for them
// (AdapterReader).
//
// Thread-safe. DeviceTier keeps track of the copies on the device.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file/file.h"
#include "base/file/folder.h"
#include "base/status.h"
#include "cpu_lora/topology/plan/reader_plan.h"
#include "engine/adapters/adapter_reader.h"
#include "engine/adapters/adapter_sets.h"
#include "engine/adapters/adapter_tokenizers.h"
#include "engine/adapters/cold_start_log.h"
#include "engine/adapters/host_tier.h"
#include "engine/adapters/served_adapter.h"
#include "engine/loader/adapter.h"
#include "engine/loader/peft/peft_reader.h"
#include "engine/service/service.h"
#include "gpu/device.h"

namespace tandem {

struct AdapterStoreOptions {
  std::int32_t max_adapters = 4096;  // names in use at once
  std::int32_t max_rank = 2048;
  std::size_t host_tier_bytes = std::size_t{64} << 20;
  std::int64_t (*now_ns)() = unix_now_ns;    // gives the age of files (FileIdentity::vouches)
  std::vector<int> host_tier_nodes = {-1};   // as in HostTier::create
  LinkRule links = {};                       // for adapters' folders
  std::int32_t num_devices = 1;              // that share the model (loader/shard.h)
  std::vector<std::string> base_names = {};  // names of the base model in adapters; empty: unknown
  ColdStartLog* cold_starts = nullptr;       // records readings; outlives the store
  ReaderPlan readers = {};                   // the threads that read adapters again
  const Tokenizer* tokenizer = nullptr;  // the base's; outlives the store. Null: adapters have it
  std::int32_t max_added_tokens = 0;     // beyond the base's vocabulary
};

class AdapterStore {
 public:
  // For a base model of this shape. Allocates and pins the whole host tier; `device` outlives the
  // store.
  static Result<std::unique_ptr<AdapterStore>> create(Device& device, const ModelSpec& spec,
                                                      DType dtype,
                                                      const AdapterStoreOptions& options);
  ~AdapterStore();
  // Stops the thread: on_news() is not called after this. The adapters and their memory stay.
  void stop();

  // Sets the function that is called, on any thread, when a folder was read again or soon will be,
  // or a name was released, so that the engine looks again. Set it before the store is used.
  void on_news(std::function<void()> news) { news_ = std::move(news); }

  // Further steps before an adapter may be served, on the loading thread; see load().
  using Prepare = std::function<Status(const AdapterLease&)>;

  // Reads a PEFT folder into the host tier and serves it under `name`. The name is set only after
  // everything, `prepare` included, has succeeded; a failure changes nothing. The same content
  // under the same name is a success. Other content is already_exists unless `in_place`;
  // invalid_argument if `digest` is given and differs.
  Status load(const std::string& name, const std::string& path, bool in_place, bool pinned,
              const Prepare& prepare = nullptr, const std::string& digest = {});
  // The same for an adapter in memory (dummy adapters of a benchmark). It has no folder, so it
  // stays in the host tier.
  Status add(const std::string& name, Adapter adapter, bool in_place, bool pinned,
             const Prepare& prepare = nullptr);

  // The name is free at once; leases stay valid.
  Status unload(const std::string& name);

  AdapterLease find(const std::string& name) const;  // null: no such adapter
  // The adapter whose delta is the sum of these (adapter_sets.h), which is loaded like one whose
  // bytes have left the host tier; null if no scale but 0 is left. not_found names an adapter that
  // is not loaded; invalid_argument says why there is no sum.
  Result<AdapterLease> find_sum(std::span<const AdapterPart> parts);
  std::vector<AdapterLease> sums() const { return sets_->list(); }
  std::vector<AdapterLease> list() const;  // ordered by name
  // As GenerationService::adapter_folder().
  AdapterFolder folder_of(const std::string& name) const;
  // As GenerationService::open_adapter_file().
  Result<AdapterFile> open_file(const std::string& digest, std::string_view file) const;

  // Requests a reading of an adapter that is not in the host tier, and returns at once; on_news()
  // is called later. AdapterHome::read_failure() has a failure (the folder is gone, its content has
  // changed).
  void request_read(const AdapterLease& adapter) { reader_->request(adapter); }
  // The bytes of adapters whose folders are being read again, or will be.
  std::int64_t bytes_to_read() const { return host_->cores().to_read(); }

  const HostTier& host_tier() const { return *host_; }
  // The number of successful readings whose content was checked by its digest, because their files
  // were not known to be unchanged.
  std::uint64_t hashed_reads() const { return reader_->hashed_reads(); }
  // The number of adapters that were usable before all of their bytes had arrived (AdapterArrival).
  std::uint64_t early_arrivals() const { return early_arrivals_.load(std::memory_order_relaxed); }

 private:
  friend class AdapterArrival;
  AdapterStore() = default;
  // For arrivals: gives the name to `adapter`, which has none yet. Returns false if the name is
  // taken, or may be soon.
  bool show(const AdapterLease& adapter);
  void hide(const AdapterLease& adapter);  // undoes show() if the name is still this adapter's
  void retire(AdapterLease adapter);       // and its sets; it has no name any more
  Status publish(const std::string& name, Adapter adapter,
                 std::shared_ptr<const Tokenizer> tokenizer, bool reloadable, bool in_place,
                 bool pinned, const Prepare& prepare);
  Result<std::shared_ptr<const Tokenizer>> read_tokenizer(const std::string& name,
                                                          const Adapter& adapter);
  std::vector<TokenId> read_end_tokens(const Adapter& adapter, const Tokenizer* own) const;
  Status check(const std::string& name, const Adapter& adapter) const;
  Status check_tokenizer(const Folder& folder, const ServedAdapter& adapter) const;
  std::size_t with_words(std::size_t num_bytes) const;
  void warn_of_other_base(const std::string& name, const Adapter& adapter);
  void tell() const {
    if (news_) news_();
  }

  ModelSpec spec_;
  DType dtype_ = DType::f32;
  AdapterStoreOptions options_;
  std::shared_ptr<HostTier> host_;
  std::unique_ptr<AdapterSets> sets_;
  std::function<void()> news_;
  std::unique_ptr<AdapterTokenizers> tokenizers_;  // null: without the base's
  std::mutex load_mutex_;           // one load at a time, from its memory to its name
  mutable std::mutex names_mutex_;  // guards names_
  std::map<std::string, AdapterLease> names_;
  std::set<std::string> other_bases_;  // that a warning named; guarded by names_mutex_

  // relaxed: it guards nothing
  std::atomic<std::uint64_t> early_arrivals_{0};
  std::unique_ptr<AdapterReader> reader_;  // reads what the others hold
};

}  // namespace tandem
