// The adapters that the engine serves: names, contents, device memory, and who still uses them.
//
// Every adapter here is resident: its weights are in device memory from the moment its name
// resolves until the last lease on it ends. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/loader/adapter.h"
#include "engine/model/llama.h"
#include "gpu/device.h"

namespace tandem {

class AdapterSlots;

// One adapter's contents in device memory. Held by shared_ptr: a request's lease keeps it alive
// through unload and reload; the last one to let go frees the memory and the slot. The engine lets
// go only after the device has passed the steps that read it.
class ResidentAdapter {
 public:
  ~ResidentAdapter();

  const std::string& name() const { return name_; }
  const Adapter& contents() const { return contents_; }  // without its bytes
  AdapterSlot slot() const { return {slot_, contents_.max_rank}; }
  std::uint64_t bytes() const { return buffer_.bytes(); }
  bool pinned() const { return pinned_; }
  std::int64_t loaded_unix() const { return loaded_unix_; }

  // Requests, for GET /v1/adapters.
  mutable std::atomic<std::int32_t> running{0};
  mutable std::atomic<std::int32_t> waiting{0};
  mutable std::atomic<std::uint64_t> hits{0};

 private:
  friend class AdapterStore;
  ResidentAdapter() = default;

  std::string name_;
  Adapter contents_;
  Buffer buffer_;
  std::shared_ptr<AdapterSlots> slots_;
  std::int32_t slot_ = -1;
  bool pinned_ = false;
  std::int64_t loaded_unix_ = 0;
};
using AdapterLease = std::shared_ptr<const ResidentAdapter>;

class AdapterStore {
 public:
  // Room for `max_adapters` at once, of ranks up to `max_rank`, for a base of this shape.
  static Result<std::unique_ptr<AdapterStore>> create(Device& device, const ModelConfig& config,
                                                      DType dtype, std::int32_t max_adapters,
                                                      std::int32_t max_rank);
  ~AdapterStore();

  // Reads a PEFT folder and makes it resident under `name`. The name changes hands only when all
  // is there; on any failure nothing has changed. The same content under the same name is a
  // success; other content is already_exists unless `in_place`.
  Status load(const std::string& name, const std::string& path, bool in_place, bool pinned);
  // The same for an adapter that is already in memory (dummy adapters of a benchmark).
  Status add(const std::string& name, Adapter adapter, bool in_place, bool pinned);

  // The name is free at once; leases live on.
  Status unload(const std::string& name);

  AdapterLease find(const std::string& name) const;  // null: no such adapter
  std::vector<AdapterLease> list() const;            // by name

  AdapterTable table() const;

 private:
  AdapterStore() = default;
  Result<std::shared_ptr<ResidentAdapter>> make_resident(const std::string& name, Adapter adapter,
                                                         bool pinned);
  Status check_name_free(const std::string& name, const std::string& digest, bool in_place,
                         bool& already_there) const;

  Device* device_ = nullptr;
  ModelConfig config_;
  DType dtype_ = DType::f32;
  std::int32_t max_rank_ = 0;
  std::shared_ptr<AdapterSlots> slots_;
  std::mutex load_mutex_;  // one load at a time: the load stream and the staging
  std::unique_ptr<Stream> load_stream_;
  mutable std::mutex names_mutex_;  // guards names_
  std::map<std::string, AdapterLease> names_;
};

}  // namespace tandem
