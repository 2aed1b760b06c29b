// Many dummy adapters for benchmarks, made by as many threads as there are cores.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/adapters/adapter_store.h"
#include "engine/loader/adapter.h"
#include "engine/model/spec/model_spec.h"

namespace tandem {

struct DummyAdapter {
  std::string name;
  std::int32_t rank = 0;
  std::vector<Module> modules;
};

std::vector<Module> qkv_modules();
std::vector<Module> all_modules();
// Those of S-LoRA's synthetic workload S2: q, k and v, ranks 64, 32, 16, 8 by turns; "s2-0", ...
std::vector<DummyAdapter> s2_adapters(std::int32_t count);

// The size of a dummy adapter's weights, paddings left out.
std::size_t adapter_bytes(const ModelSpec& config, DType dtype, std::int32_t rank,
                          const std::vector<Module>& modules);
// How many nodes a host tier may be spread over: those of the cores that this process may use.
std::size_t num_usable_nodes();
// A host tier that holds all of them, also when it is spread over so many nodes.
std::size_t host_tier_bytes_for(const ModelSpec& config, DType dtype,
                                std::span<const DummyAdapter> adapters,
                                std::size_t num_nodes = num_usable_nodes());

// Makes them, each with weights of its own, and adds them to the store. `progress`: adapters done.
Status add_dummy_adapters(AdapterStore& store, const ModelSpec& config, DType dtype,
                          std::span<const DummyAdapter> adapters,
                          const std::function<void(std::size_t)>& progress);

}  // namespace tandem
