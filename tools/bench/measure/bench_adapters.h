// Makes many dummy adapters for benchmarks, with as many threads as there are cores.
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
  std::vector<std::string_view> modules;
  std::vector<Site> whole = {};  // sites of modules that are whole (modules_to_save)
  std::vector<TokenId> invocation = {};
};

std::vector<std::string_view> qkv_modules();
std::vector<std::string_view> all_modules();
// Adapters of S-LoRA's synthetic workload S2, "s2-0" ...: q, k, v; ranks 64, 32, 16, 8 repeating.
std::vector<DummyAdapter> s2_adapters(std::int32_t count);

// The size of a dummy adapter's weights without padding.
std::size_t adapter_bytes(const ModelSpec& spec, DType dtype, const DummyAdapter& adapter);
// The number of nodes over which a host tier may be spread: those of the usable cores.
std::size_t num_usable_nodes();
// The size of a host tier that holds all adapters, even if it is spread over so many nodes.
std::size_t host_tier_bytes_for(const ModelSpec& spec, DType dtype,
                                std::span<const DummyAdapter> adapters,
                                std::size_t num_nodes = num_usable_nodes());

// Adds the adapters, each with its own weights, to the store. `progress` gets the number added.
Status add_dummy_adapters(AdapterStore& store, const ModelSpec& spec, DType dtype,
                          std::span<const DummyAdapter> adapters,
                          const std::function<void(std::size_t)>& progress);

}  // namespace tandem
