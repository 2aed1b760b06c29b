// LoRA adapters as PEFT writes them, converted and ready to compute with.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/status.h"
#include "engine/model/spec/model_spec.h"

namespace tandem {

// The modules, in their order in an adapter's bytes. The model fuses q, k, v and gate, up.
enum class Module : std::uint8_t { q, k, v, o, gate, up, down };
inline constexpr int kNumModules = 7;
std::string_view to_string(Module module);  // "q_proj"
std::int64_t module_in(const ModelSpec& config, Module module);
std::int64_t module_out(const ModelSpec& config, Module module);

// The projections of a layer, in execution order. The model computes each of them as one product.
enum class Site : std::uint8_t { qkv, o, gate_up, down };
inline constexpr int kNumSites = 4;
inline constexpr std::array<Module, kNumSites + 1> kFirstModuleOfSite = {
    Module::q, Module::o, Module::gate, Module::down, Module{kNumModules}};
constexpr int num_modules_of(Site site) {
  const auto at = static_cast<std::size_t>(site);
  return static_cast<int>(kFirstModuleOfSite[at + 1]) - static_cast<int>(kFirstModuleOfSite[at]);
}
// One number for each site: the sum of the ranks of its modules.
using SiteRanks = std::array<std::int32_t, kNumSites>;

// A and B of one module of one layer, as byte offsets into Adapter::bytes.
struct AdapterMatrix {
  std::int32_t rank = 0;       // 0: this module is not adapted
  std::int32_t b_stride = 0;   // elements between rows of B: rank rounded up to 16 bytes
  std::uint64_t a_offset = 0;  // [rank, in] dense
  std::uint64_t b_offset = 0;  // [out, b_stride], columns past rank are zero
};

struct PeftSource;  // defined in peft_source.h

// The bytes are 64-byte aligned. Threads that copy from them share ownership; the last owner frees
// them.
using AdapterBytes = std::shared_ptr<std::byte[]>;
// Allocates uninitialised bytes for an adapter's weights.
using AllocateBytes = std::function<Result<AdapterBytes>(std::size_t bytes)>;

// The weights are one run of bytes, layer by layer, module by module, A then B, every matrix
// 64-byte aligned, in `dtype`. alpha / r (or alpha / sqrt r for rsLoRA, with per-module patterns
// applied) is folded into B.
struct Adapter {
  std::string path;        // the folder it was read from
  std::string base_model;  // as in adapter_config.json, for display only
  DType dtype = DType::bf16;
  std::int32_t max_rank = 0;
  SiteRanks site_ranks = {};    // the maximum over all layers
  std::vector<Module> modules;  // adapted in at least one layer, in order
  std::string digest;           // of the contents (relevant config + weights): 32 hex digits
  std::vector<std::array<AdapterMatrix, kNumModules>> layers;  // [num_layers]
  AdapterBytes bytes;
  std::size_t num_bytes = 0;
  std::shared_ptr<const PeftSource> source;  // set if a changed folder can be detected
};

// Makes a random adapter of one rank on the given modules of all layers. The same seed gives the
// same adapter.
Adapter make_dummy_adapter(const ModelSpec& config, DType dtype, std::int32_t rank,
                           const std::vector<Module>& modules, std::uint64_t seed);

}  // namespace tandem
