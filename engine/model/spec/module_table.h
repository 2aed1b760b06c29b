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
struct TensorNames;

// The products of a layer to which adapters add, in the order of their execution. One product
// computes all modules that read the same input. A kind of layer adds its own; the table of a model
// has those of its layers.
enum class Site : std::uint8_t {
  qkv,
  o,
  gate_up,
  down,
  // These make and add the inputs by layer (layers/layer_input.h); only the first layer has the
  // first of them.
  layer_inputs,
  input_gate,
  input_projection,
  // CPU workers take none of the following. Whole matrices replace the base's of the products
  // above, in the same order, and vectors replace its biases.
  whole_qkv,
  whole_o,
  whole_gate_up,
  whole_down,
  whole_layer_inputs,
  whole_input_gate,
  whole_input_projection,
  qkv_bias,
  o_bias,
  gate_up_bias,
  down_bias,
  // Vectors that replace the weights of norms. That of the model's end is the last layer's.
  attention_norm,
  qk_norm,
  attention_out_norm,
  mlp_norm,
  mlp_out_norm,
  input_out_norm,
  layer_input_norm,
  final_norm,
  // The embedding, which counts as the first layer's, and the head's product with the normed rows
  // that get logits, the last layer's. The first two replace the base's matrix, the next two rows
  // of it.
  whole_embedding,
  whole_head,
  embedding_tokens,
  head_tokens,
  embedding,
  head,
};

// True if CPU workers may compute deltas of the site for rows of a cold adapter.
constexpr bool takes_offers(Site site) {
  return site < Site::whole_qkv;
}
// The site of whole matrices in place of those of a product.
constexpr Site whole_of(Site product) {
  return static_cast<Site>(static_cast<int>(Site::whole_qkv) + static_cast<int>(product));
}
// The site of its biases, of the products that may have some.
constexpr Site bias_of(Site product) {
  return static_cast<Site>(static_cast<int>(Site::qkv_bias) + static_cast<int>(product));
}
constexpr bool may_have_bias(Site product) {
  return product <= Site::down;
}
constexpr bool is_bias(Site site) {
  return site >= Site::qkv_bias && site <= Site::down_bias;
}
constexpr bool is_norm(Site site) {
  return site >= Site::attention_norm && site <= Site::final_norm;
}

// True for whole embeddings and heads, whose rows are an adapter's own vocabulary.
constexpr bool is_vocabulary(Site site) {
  return site == Site::whole_embedding || site == Site::whole_head;
}

// Bounds the arrays that hold a value for each site: a step copies them for every sequence and for
// every layer, so they are not allocated.
inline constexpr std::size_t kMaxSites = 32;
// Kernels and mailboxes have room for so many modules (LoraModules, GroupJob).
inline constexpr std::size_t kMaxModulesOfSite = 3;

// How shards (loader/shard.h) cut a module.
enum class ModuleCut : std::uint8_t {
  columns,  // a shard computes some columns of the output
  rows,     // a shard has some columns of the input, and results are summed
  none,     // every shard computes all of it
};

// The place of a module's path.
enum class ModulePlace : std::uint8_t {
  layer,  // below each layer
  root,   // below the root of the model, beside the layers
  top,    // beside the root
};

// A row of the table: one module of every layer that has it. A module outside of the layers counts
// as one of the layer whose step computes it.
struct AdaptedModule {
  // Counts columns in a layer of a model, or of a shard of it.
  using Columns = std::int64_t (*)(const ModelSpec& spec, const LayerSpec& layer);

  // As in PEFT, below the place: "self_attn.q_proj".
  std::string path;
  Site site = Site::qkv;
  Columns in = nullptr;   // any number in layers that do not have the module
  Columns out = nullptr;  // 0 in layers that do not have the module
  // If set, adapters have the module as a whole matrix [out, width] that replaces the base's: it is
  // kept as B with `width` for a rank, beside an A without columns (`in` is 0). Null: LoRA.
  Columns width = nullptr;
  ModuleCut cut = ModuleCut::columns;  // a module with as many columns in a shard is not cut
  // The module of the checkpoint that has this one's rows among those of others of its site, in the
  // order of the table: "self_attn.qkv_proj". Adapters may name either. Empty: there is none.
  std::string fused_path = {};
  ModulePlace place = ModulePlace::layer;
  // Adapters have rows [tokens, in] that replace those of a few tokens. They are kept as A, beside
  // a B of one row with the tokens' ids (base/lora_rows.h); `out` is 1.
  bool by_token = false;
  // Adapters have a vector [out] that replaces the base's. It is kept as B, whose rows are an f32
  // each on every device, beside an A without columns (`in` is 0).
  bool is_vector = false;
  // The family's name of the module, in place of `path`; null: `path` is right for all.
  std::string_view TensorNames::*named = nullptr;

  bool is_whole() const { return width != nullptr; }
  bool is_lora() const { return !is_whole() && !by_token && !is_vector; }
  std::string_view name() const;  // "q_proj"; of rows without `named`
  // The path, and its last part, in a family with these names.
  std::string_view path_in(const TensorNames& names) const;
  std::string_view name_in(const TensorNames& names) const;
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
  // All modules of the site are rows of this module of the checkpoint, and so are whole matrices
  // and biases of them.
  void fuse(Site site, std::string_view fused_path);
  std::optional<std::size_t> find(std::string_view name) const;  // a LoRA module
  std::size_t row(std::string_view name) const;                  // must exist

  // The number of sites that take offers. They are numbered from 0; numbers of sites without
  // modules count as well.
  std::size_t num_sites() const { return num_sites_; }
  // The rows of a site: [first_of(site), end_of(site)).
  std::size_t first_of(Site site) const { return first_[index(site)]; }
  std::size_t end_of(Site site) const { return first_[index(site) + 1]; }
  std::size_t num_of(Site site) const { return end_of(site) - first_of(site); }
  // How the modules of a site are cut, all alike. Requires that there are some.
  ModuleCut cut(Site site) const { return rows_[first_of(site)].cut; }

 private:
  static constexpr std::size_t index(Site site) { return static_cast<std::size_t>(site); }

  std::vector<AdaptedModule> rows_;
  std::size_t num_sites_ = 0;
  std::array<std::size_t, kMaxSites + 1> first_ = {};
};

// Columns of a module's input and output in a layer of a model, or of a shard of it. A layer that
// does not have the module has no columns of output.
std::int64_t module_in(const ModelSpec& spec, std::int64_t layer, std::size_t module);
std::int64_t module_out(const ModelSpec& spec, std::int64_t layer, std::size_t module);
// The rank of an adapter's matrices of a module: the columns of a whole one, 1 of a vector,
// otherwise `rank`.
std::int64_t module_rank(const ModelSpec& spec, std::int64_t layer, std::size_t module,
                         std::int64_t rank);

}  // namespace tandem
