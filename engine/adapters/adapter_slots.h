// The weight table in device memory, one row per slot, and which slots are free. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "engine/base/status.h"
#include "gpu/device.h"
#include "gpu/ops.h"

namespace tandem {

class AdapterSlots {
 public:
  static Result<std::shared_ptr<AdapterSlots>> create(Device& device, std::int32_t num_slots,
                                                      std::int64_t matrices_per_slot);

  std::int32_t num_slots() const { return num_slots_; }
  std::optional<std::int32_t> take();  // nothing: all are in use
  void give_back(std::int32_t slot);
  LoraMatrix* row(std::int32_t slot) const;  // device memory, [matrices_per_slot]

 private:
  AdapterSlots() = default;

  std::int32_t num_slots_ = 0;
  std::int64_t matrices_per_slot_ = 0;
  Buffer table_;
  std::mutex mutex_;
  std::vector<std::int32_t> free_;  // guarded by mutex_
};

}  // namespace tandem
