// What `tandem profile` measures: each function adds one table (profile_fit.h) to a Profile.
// Medians of a few rounds; every case bounds its own time.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/loader/model_config.h"
#include "engine/model/model_weights.h"
#include "engine/profile/profile.h"
#include "gpu/device.h"

namespace tandem {

struct ProfileTarget {
  std::vector<Device*> devices;  // that share the model; not empty
  ModelConfig config;            // of the whole model
  ModelConfig shape;             // of one device's part
  DType dtype = DType::bf16;
  std::vector<int> worker_cpus;  // a worker each; may be empty
  std::vector<int> engine_cpus;  // for whoever gives them jobs
  bool quick = false;            // fewer cases and rounds, for a slow device
};

// Copies with their ready words, many in a row, by their size: to all devices at the same time, as
// their parts of an adapter travel. Seconds of the slowest.
Status measure_link(const ProfileTarget& target, Profile& profile);
// The model with dummy weights, on all devices: whole steps by their rows. `progress` of making the
// weights.
Status measure_steps(const ProfileTarget& target, Profile& profile, const LoadProgress& progress);
// The four products of a layer that the base model has anyway; the first device's part of them.
Status measure_gemm(const ProfileTarget& target, Profile& profile);
// The LoRA operation on q, k and v, the first device's part, each row an adapter of its own, of
// equal and of mixed ranks.
Status measure_lora(const ProfileTarget& target, Profile& profile);
// Offer, an answer at once, accept: by rows, on the first device, which alone offers.
Status measure_trip(const ProfileTarget& target, Profile& profile);
// Reading memory with so many of the workers' cores.
Status measure_memory(const ProfileTarget& target, Profile& profile);

}  // namespace tandem
