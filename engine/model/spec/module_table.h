// The modules of a model that LoRA adapters may adapt, as a table that belongs to its ModelSpec.
// The layout of adapters, the reader of PEFT's folders, the order of loads, the jobs of CPU workers
// and the numbers of a step's offers follow from it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

struct LayerSpec;
struct ModelSpec;

// The products of a layer to which adapters add, in the order of their execution. One product
// computes all modules that read the same input. A kind of layer adds its own; the table of a model
// has those of its layers.
enum class Site : std::uint8_t { qkv, o, gate_up, down };

// Bounds the arrays that hold a value for each site: a step copies them for every sequence and for
// every layer, so they are not allocated.
inline constexpr std::size_t kMaxSites = 8;
// Kernels and mailboxes have room for so many modules (LoraModules, GroupJob).
inline constexpr std::size_t kMaxModulesOfSite = 3;

// A row of the table: one module of every layer that has it.
struct AdaptedModule {
  // Counts columns in a layer of a model, or of a shard of it.
  using Columns = std::int64_t (*)(const ModelSpec& spec, const LayerSpec& layer);

  std::string path;  // within a layer, as in PEFT: "self_attn.q_proj"
  Site site = Site::qkv;
  Columns in = nullptr;
  Columns out = nullptr;  // 0 in layers that do not have the module
  bool by_rows = false;   // cut by rows in shards (loader/shard.h), so that results are summed
  // The module of the checkpoint that has this one's rows among those of others of its site, in the
  // order of the table: "self_attn.qkv_proj". Adapters may name either. Empty: there is none.
  std::string fused_path = {};

  std::string_view name() const;  // "q_proj"
};

// A module is named by its row. An adapter's matrices lie in the order of rows, layer by layer.
class ModuleTable {
 public:
  ModuleTable() = default;
  // Requires rows in the order of their sites, up to kMaxModulesOfSite of each, and in the order of
  // their columns in the site's product.
  explicit ModuleTable(std::vector<AdaptedModule> rows);

  std::size_t size() const { return rows_.size(); }
  const AdaptedModule& operator[](std::size_t module) const { return rows_[module]; }
  auto begin() const { return rows_.begin(); }
  auto end() const { return rows_.end(); }
  // All modules of the site are rows of this module of the checkpoint.
  void fuse(Site site, std::string_view fused_path);
  std::optional<std::size_t> find(std::string_view name) const;
  std::size_t row(std::string_view name) const;  // must exist

  // Sites are numbered from 0; numbers of sites without modules count as well.
  std::size_t num_sites() const { return rows_.empty() ? 0 : index(rows_.back().site) + 1; }
  // The rows of a site: [first_of(site), end_of(site)).
  std::size_t first_of(Site site) const { return first_[index(site)]; }
  std::size_t end_of(Site site) const { return first_[index(site) + 1]; }
  std::size_t num_of(Site site) const { return end_of(site) - first_of(site); }
  bool by_rows(Site site) const { return num_of(site) > 0 && rows_[first_of(site)].by_rows; }

 private:
  static constexpr std::size_t index(Site site) { return static_cast<std::size_t>(site); }

  std::vector<AdaptedModule> rows_;
  std::array<std::size_t, kMaxSites + 1> first_ = {};
};

// Columns of a module's input and output in a layer of a model, or of a shard of it. A layer that
// does not have the module has no columns of output.
std::int64_t module_in(const ModelSpec& spec, std::int64_t layer, std::size_t module);
std::int64_t module_out(const ModelSpec& spec, std::int64_t layer, std::size_t module);

}  // namespace tandem
