// The measurements of `tandem profile`: each stage adds tables (profile_fit.h) in every pass
// (profile_passes.h). The time of each pass is limited, and so is that of the whole.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "base/status.h"
#include "engine/model/spec/model_spec.h"
#include "engine/model/weights/model_weights.h"
#include "gpu/device.h"
#include "tools/profile/measure/profile_passes.h"

namespace tandem {

struct ProfileTarget {
  std::vector<Device*> devices;  // the devices that share the model; not empty
  ModelSpec stored;              // of the model as its checkpoint and adapters have it
  ModelSpec spec;                // of the whole model, spread over the devices
  ModelSpec shape;               // of one device's part
  DType dtype = DType::bf16;
  std::vector<int> worker_cpus;  // one worker for each; may be empty
  // For the thread that gives them jobs, which is the measuring thread.
  std::vector<int> engine_cpus;
  std::vector<int> usable_cpus;  // all cpus that this process may use
  bool quick = false;            // fewer cases and rounds, for a slow device
};

using MadeStage = Result<std::unique_ptr<ProfileStage>>;

// Copies with their ready words, many in a row, by size: to all devices at the same time, because
// the parts of an adapter are copied that way. Seconds of the slowest device.
MadeStage make_link_stage(const ProfileTarget& target);
// The four matrix products of a layer of the base model; the first device's part of them.
MadeStage make_gemm_stage(const ProfileTarget& target);
// The LoRA operation on q, k and v, the first device's part, with a different adapter for each row,
// of equal and of mixed ranks.
MadeStage make_lora_stage(const ProfileTarget& target);
// Whole steps of the model with dummy weights on all devices, by their rows. `progress` reports the
// creation of the weights.
MadeStage make_steps_stage(const ProfileTarget& target, const LoadProgress& progress);
// Offer, an immediate answer, accept: by rows, on the first device, which alone offers. The echoing
// thread has its own core if there is one.
MadeStage make_trip_stage(const ProfileTarget& target);
// Reads as many bytes as the workers' weights have, by number of workers' cores. Requires workers.
MadeStage make_memory_stage(const ProfileTarget& target);

// Bytes of weights for measuring workers: more than the private caches of a core.
std::size_t weight_bytes(const ProfileTarget& target);

}  // namespace tandem
