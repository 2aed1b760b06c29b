// What `tandem profile` measures: each stage adds tables (profile_fit.h) in every pass
// (profile_passes.h). All bound their time: of a pass, and by that of the whole.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "base/status.h"
#include "engine/model/spec/model_spec.h"
#include "engine/model/weights/model_weights.h"
#include "gpu/device.h"
#include "tools/profile/profile_passes.h"

namespace tandem {

struct ProfileTarget {
  std::vector<Device*> devices;  // that share the model; not empty
  ModelSpec config;              // of the whole model
  ModelSpec shape;               // of one device's part
  DType dtype = DType::bf16;
  std::vector<int> worker_cpus;  // a worker each; may be empty
  std::vector<int> engine_cpus;  // for whoever gives them jobs; the measuring thread runs there
  std::vector<int> usable_cpus;  // all that this process may run on
  bool quick = false;            // fewer cases and rounds, for a slow device
};

using MadeStage = Result<std::unique_ptr<ProfileStage>>;

// Copies with their ready words, many in a row, by their size: to all devices at the same time, as
// their parts of an adapter travel. Seconds of the slowest.
MadeStage make_link_stage(const ProfileTarget& target);
// The four products of a layer that the base model has anyway; the first device's part of them.
MadeStage make_gemm_stage(const ProfileTarget& target);
// The LoRA operation on q, k and v, the first device's part, each row an adapter of its own, of
// equal and of mixed ranks.
MadeStage make_lora_stage(const ProfileTarget& target);
// The model with dummy weights, on all devices: whole steps by their rows. `progress` of making the
// weights.
MadeStage make_steps_stage(const ProfileTarget& target, const LoadProgress& progress);
// Offer, an answer at once, accept: by rows, on the first device, which alone offers. The thread
// that echoes has a core of its own, where there is one.
MadeStage make_trip_stage(const ProfileTarget& target);
// Reading as many bytes as the workers' weights have, with so many of the workers' cores. Requires
// workers.
MadeStage make_memory_stage(const ProfileTarget& target);

// How many bytes of weights workers are measured with: more than a core's own caches hold.
std::size_t weight_bytes(const ProfileTarget& target);

}  // namespace tandem
