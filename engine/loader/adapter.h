// LoRA adapters as PEFT writes them, converted and ready to compute with.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/ids/token_id.h"
#include "base/status.h"
#include "engine/model/spec/model_spec.h"

namespace tandem {

// One number for each site: the sum of the ranks of its modules.
using SiteRanks = std::array<std::int32_t, kMaxSites>;

// A and B of one module of one layer, as byte offsets into Adapter::bytes.
struct AdapterMatrix {
  std::int32_t rank = 0;       // 0: this module is not adapted
  std::int32_t b_stride = 0;   // elements between rows of B (base/lora_rows.h)
  bool has_bias = false;       // added once to each row, whatever x is
  std::uint64_t a_offset = 0;  // [rank, in] dense
  std::uint64_t b_offset = 0;  // [out, b_stride], columns past rank are zero
};

// The matrices of each layer: one for each row of the model's ModuleTable.
class AdapterLayers {
 public:
  AdapterLayers() = default;
  AdapterLayers(std::int64_t num_layers, std::size_t num_modules)
      : num_modules_(num_modules), matrices_(static_cast<std::size_t>(num_layers) * num_modules) {}

  std::size_t size() const { return num_modules_ == 0 ? 0 : matrices_.size() / num_modules_; }
  std::span<AdapterMatrix> operator[](std::size_t layer) {
    return std::span(matrices_).subspan(layer * num_modules_, num_modules_);
  }
  std::span<const AdapterMatrix> operator[](std::size_t layer) const {
    return std::span(matrices_).subspan(layer * num_modules_, num_modules_);
  }
  std::span<const AdapterMatrix> all() const { return matrices_; }  // layer by layer

 private:
  std::size_t num_modules_ = 0;
  std::vector<AdapterMatrix> matrices_;
};

struct PeftSource;  // defined in peft_source.h
struct ScoreHead;   // defined in score_head.h

// The bytes are 64-byte aligned. Threads that copy from them share ownership; the last owner frees
// them.
using AdapterBytes = std::shared_ptr<std::byte[]>;
// Allocates uninitialised bytes for an adapter's weights.
using AllocateBytes = std::function<Result<AdapterBytes>(std::size_t bytes)>;

// The weights are one run of bytes, layer by layer, module by module, A then B, every matrix
// 64-byte aligned, in `dtype`. alpha / r (or alpha / sqrt r for rsLoRA, with per-module patterns
// applied) is folded into B and its bias.
struct Adapter {
  std::string path;        // the folder it was read from
  std::string base_model;  // as in adapter_config.json, for display only
  DType dtype = DType::bf16;
  std::int32_t max_rank = 0;
  // Tokens of the adapter's own vocabulary, if it is larger than the base's. Its embedding and its
  // head have rows by token for those beyond the base's.
  std::int64_t vocab_size = 0;  // 0: the base's
  bool has_bias = false;        // at least one matrix has
  SiteRanks site_ranks = {};    // the maximum over all layers
  // Tokens that end the adapter's texts, beside the base's. Not part of the digest.
  std::vector<TokenId> end_tokens;
  // An activated LoRA acts from the start of the last occurrence of these tokens in the prompt on,
  // and on no token of a prompt without one. Empty: it acts on all tokens.
  std::vector<TokenId> invocation;
  std::vector<std::string> modules;  // names of those adapted in at least one layer, in order
  std::string digest;                // of the contents (relevant config + weights): 32 hex digits
  AdapterLayers layers;
  std::shared_ptr<const ScoreHead> score;  // stays in host memory; null: the adapter has none
  AdapterBytes bytes;
  std::size_t num_bytes = 0;
  std::shared_ptr<const PeftSource> source;  // set if a changed folder can be detected
};

// Makes a random adapter of one rank on the modules of these names ("q_proj"), in all layers that
// have them, and with whole modules at the sites `whole`, each of which takes one. The same seed
// gives the same adapter.
Adapter make_dummy_adapter(const ModelSpec& spec, DType dtype, std::int32_t rank,
                           const std::vector<std::string_view>& modules, std::uint64_t seed,
                           std::span<const Site> whole = {});

}  // namespace tandem
