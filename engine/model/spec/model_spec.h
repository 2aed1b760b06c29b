// Describes a model's computation as data: a list of layers, and the parts before and after them. A
// family (engine/model/families) makes a ModelSpec from a checkpoint's config.json, and
// engine/model computes it.
//
// Some fields describe features that no family here has yet. They exist so that a family that needs
// one only adds code where the field is read; until then check_computable() refuses the feature by
// name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/status.h"
#include "engine/model/spec/module_table.h"
#include "gpu/activation.h"

namespace tandem {

// A rotary embedding: the elements of a head that it rotates, and their frequencies. At most one
// of the scalings is set.
struct RotarySpec {
  // As in Llama 3 (rope_type "llama3").
  struct Llama3Scaling {
    double factor = 8;
    double low_freq_factor = 1;
    double high_freq_factor = 4;
    double original_max_position_embeddings = 8192;
    friend bool operator==(const Llama3Scaling&, const Llama3Scaling&) = default;
  };
  // YaRN (Peng et al. 2023; rope_type "yarn").
  struct YarnScaling {
    double factor = 1;
    double beta_fast = 32;
    double beta_slow = 1;
    double original_max_position_embeddings = 0;
    bool truncate = true;  // the range of frequencies that are mixed is rounded to whole pairs
    friend bool operator==(const YarnScaling&, const YarnScaling&) = default;
  };
  // Theta grows with the sequence's length, once it exceeds `original` (rope_type "dynamic").
  struct DynamicScaling {
    double factor = 1;
    std::int64_t original = 0;
    friend bool operator==(const DynamicScaling&, const DynamicScaling&) = default;
  };
  // LongRoPE (Ding et al. 2024; rope_type "longrope"): frequencies are divided by one list, or, in
  // sequences longer than `original`, by another. [pairs] both.
  struct LongRopeScaling {
    std::vector<double> short_factors;
    std::vector<double> long_factors;
    std::int64_t original = 0;
    friend bool operator==(const LongRopeScaling&, const LongRopeScaling&) = default;
  };
  double theta = 10000;
  std::int64_t rotated = 0;     // elements of a head, from the first on; 0: all
  bool interleaved = false;     // pairs are neighbours, not elements half of `rotated` apart
  std::int64_t turning = 0;     // pairs that turn; the others have a frequency of 0; 0: all turn
  double attention_factor = 1;  // multiplies cosines and sines
  double linear_factor = 1;     // divides positions (rope_type "linear")
  // Divide the frequencies, one for each pair (GGUF's rope_freqs); empty: none.
  std::vector<double> divisors;
  std::optional<Llama3Scaling> llama3;
  std::optional<YarnScaling> yarn;
  std::optional<DynamicScaling> dynamic;
  std::optional<LongRopeScaling> longrope;

  // The pairs of elements that rotate in a head of so many elements.
  std::int64_t pairs(std::int64_t head_dim) const {
    return (rotated == 0 ? head_dim : rotated) / 2;
  }
  // Sequences of up to this length rotate alike, longer ones by their length. 0: all alike.
  std::int64_t original_length() const {
    return dynamic ? dynamic->original : longrope ? longrope->original : 0;
  }
  friend bool operator==(const RotarySpec&, const RotarySpec&) = default;
};

// How the lengths of sequences choose their rotary embedding. A token at position p rotates by the
// length max(p + 1, of(...)) of its sequence.
struct RotaryLengths {
  std::int64_t original = 0;  // as RotarySpec::original_length()
  // All tokens of a sequence rotate by its whole length, so its keys are computed again when it
  // outgrows `original` (LongRoPE). False: the prompt's tokens rotate by the prompt's length, and
  // each later one by the length that it gives the sequence.
  bool whole = false;

  // The least length by which tokens of a sequence rotate; 0: none, as it is not above `original`.
  // Equal values mean equal keys.
  std::int64_t of(std::int64_t prompt_len, std::int64_t num_tokens) const {
    const std::int64_t length = whole ? num_tokens : prompt_len;
    if (original == 0 || length <= original) return 0;
    return whole ? original + 1 : length;
  }
  // True if the keys of a sequence that were computed for the length `used` no longer count.
  bool outgrown(std::int64_t used, std::int64_t num_tokens) const {
    return whole && used != of(0, num_tokens);
  }
};

// The norm of queries and keys before the rotary embedding: none, over each head, or over all heads
// together (OLMo 2).
enum class QkNorm : std::uint8_t { none, head, all_heads };

// Multiplies the query at position p by 1 + beta ln(1 + floor(p / original)), so that attention
// stays sharp in long contexts (Llama 4's temperature tuning).
struct QueryScale {
  double beta = 0;  // 0: queries stay
  double original = 1;
  friend bool operator==(const QueryScale&, const QueryScale&) = default;
};

// The mixer of a layer: attention with grouped queries over a paged KV cache.
struct AttentionSpec {
  static constexpr std::size_t kNoRotary = SIZE_MAX;
  static constexpr std::size_t kOwnKeys = SIZE_MAX;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;  // divides `heads`
  std::int64_t head_dim = 0;  // even
  double scale = 0;           // of q k^T; 0: 1 / sqrt(head_dim)
  std::size_t rotary = 0;     // index into ModelSpec::rotary, or kNoRotary
  std::int64_t window = 0;    // keys that a token sees, itself included; 0: the whole context
  double softcap = 0;         // scores become softcap * tanh(score / softcap); 0: they stay
  bool sinks = false;         // a learnt logit beside each head's scores
  QueryScale query_scale;     // the same in all layers
  QkNorm qk_norm = QkNorm::none;
  bool v_norm = false;          // each head's values are normed, without a weight
  bool keys_as_values = false;  // values are keys before norm and rotation, and then normed
  bool qkv_bias = false;
  bool o_bias = false;
  // The layer whose keys and values this one reads: an earlier one with keys of its own, of the
  // same heads and window. kOwnKeys: its own.
  std::size_t keys_of = kOwnKeys;

  // The checkpoint has these numbers of heads if the model is spread over devices (spread.h); 0: as
  // above.
  std::int64_t stored_heads = 0;
  std::int64_t stored_kv_heads = 0;

  bool has_keys() const { return keys_of == kOwnKeys; }
  std::int64_t q_size() const { return heads * head_dim; }
  std::int64_t kv_size() const { return has_keys() ? kv_heads * head_dim : 0; }  // of its own
  std::int64_t stored_q_size() const {
    return (stored_heads == 0 ? heads : stored_heads) * head_dim;
  }
  std::int64_t stored_kv_size() const {
    if (!has_keys()) return 0;
    return (stored_kv_heads == 0 ? kv_heads : stored_kv_heads) * head_dim;
  }
  friend bool operator==(const AttentionSpec&, const AttentionSpec&) = default;
};

// The feed-forward part of a layer: down(activation(gate(x)) * up(x)).
struct MlpSpec {
  std::int64_t size = 0;  // rows of gate and of up
  Activation activation = Activation::silu;
  bool bias = false;             // of gate, up and down
  std::int64_t stored_size = 0;  // of the checkpoint, if the model is spread; 0: as above

  std::int64_t stored() const { return stored_size == 0 ? size : stored_size; }
  friend bool operator==(const MlpSpec&, const MlpSpec&) = default;
};

// An input of the token beside the residual, which has a part for each layer (Gemma 3n). The parts
// of all layers are made at once, from the token's embedding and a table.
struct LayerInputSpec {
  std::int64_t size = 0;     // of a layer's part; 0: there is none
  bool makes_parts = false;  // this layer's step makes the parts of all layers; true of the first
  friend bool operator==(const LayerInputSpec&, const LayerInputSpec&) = default;
};

// The place of a layer's norms: before attention and the feed-forward part, after them, or both.
enum class NormPlace : std::uint8_t { before, behind, around };

struct LayerSpec {
  AttentionSpec attention;
  MlpSpec mlp;
  LayerInputSpec input;
  NormPlace norms = NormPlace::before;
  bool parallel = false;  // the feed-forward part reads the same normed input as attention
  // Multiplies the sum that a block adds to the residual; the same in all layers.
  double residual_multiplier = 1;
  bool output_scale = false;  // a number of the checkpoint multiplies the residual behind the layer
  friend bool operator==(const LayerSpec&, const LayerSpec&) = default;
};

// The names of the model's tensors in a checkpoint. The name of a layer's tensor is appended to
// `layer` with the layer's number; names of projections get ".weight" and ".bias", norms ".weight".
// Projections of one name are rows of one tensor, in the order q, k, v and gate, up.
struct TensorNames {
  std::string_view root = "model.";  // before the next three; see names_in()
  bool multimodal = false;           // beside the text model, there are others
  std::string_view embedding = "embed_tokens.weight";
  std::string_view layer = "layers.{}.";
  std::string_view final_norm = "norm.weight";
  std::string_view head = "lm_head.weight";
  // A layer has the norms that its NormPlace says.
  std::string_view attention_norm = "input_layernorm";
  std::string_view q = "self_attn.q_proj", k = "self_attn.k_proj", v = "self_attn.v_proj";
  std::string_view q_norm = "self_attn.q_norm", k_norm = "self_attn.k_norm";
  std::string_view o = "self_attn.o_proj";
  std::string_view sinks = "self_attn.sinks";  // [heads]
  std::string_view attention_out_norm = "post_attention_layernorm";
  std::string_view mlp_norm = "post_attention_layernorm";
  std::string_view mlp_out_norm = "post_feedforward_layernorm";
  std::string_view output_scale = "layer_scalar";  // [1]
  std::string_view gate = "mlp.gate_proj", up = "mlp.up_proj", down = "mlp.down_proj";
  // The tensors of inputs by layer: the first three lie below the root, the others in each layer.
  std::string_view layer_inputs = "embed_tokens_per_layer.weight";
  std::string_view layer_input_projection = "per_layer_model_projection.weight";
  std::string_view layer_input_norm = "per_layer_projection_norm.weight";
  std::string_view input_gate = "per_layer_input_gate";
  std::string_view input_projection = "per_layer_projection";
  std::string_view input_out_norm = "post_per_layer_input_norm";
};

inline constexpr std::int64_t kMaxLabels = 1024;  // of a score head

// The names that transformers gives to labels without names: "LABEL_0" and so on.
std::vector<std::string> default_labels(std::int64_t count);

struct ModelSpec {
  std::string family = "llama";  // as in the registry of families
  std::int64_t hidden_size = 0;
  std::int64_t vocab_size = 0;
  std::int64_t max_position_embeddings = 0;
  double rms_norm_eps = 1e-5;
  bool norm_adds_one = false;    // norms multiply by 1 + weight
  bool stores_one_plus = false;  // the checkpoint has 1 + weight (GGUF), and adapters weight
  bool norm_centred = false;     // norms take the mean off first (LayerNorm without a bias)
  double embedding_multiplier = 1;
  double logits_multiplier = 1;
  double logits_softcap = 0;         // logits become softcap * tanh(logit / softcap); 0: they stay
  bool tie_word_embeddings = false;  // the head is the embedding
  bool writes_text = true;           // false: the checkpoint has no head, and gives only states
  std::vector<std::string> labels;   // of its score head, a name each; empty: it has none
  std::vector<RotarySpec> rotary;    // AttentionSpec::rotary is an index of it
  std::vector<LayerSpec> layers;
  TensorNames names;
  ModuleTable modules;        // that adapters may adapt
  DType dtype = DType::bf16;  // of the checkpoint
  std::vector<std::int32_t> eos_token_ids;
  std::optional<std::int32_t> bos_token_id;

  bool has_own_head() const { return writes_text && !tie_word_embeddings; }
  std::int64_t num_layers() const { return static_cast<std::int64_t>(layers.size()); }
  const LayerSpec& layer(std::int64_t index) const {
    return layers[static_cast<std::size_t>(index)];
  }
  // The parts of the first layer, which must exist. Other layers may have other sizes.
  const AttentionSpec& attention() const { return layers.front().attention; }
  const MlpSpec& mlp() const { return layers.front().mlp; }
  std::int64_t q_size() const { return attention().q_size(); }
  std::int64_t kv_size() const { return attention().kv_size(); }
  std::int64_t layer_input_size() const { return layers.front().input.size; }
  // Columns of keys of all layers together; values have as many.
  std::int64_t all_keys() const;
  // True if all layers have the same columns of queries, keys and the feed-forward part.
  bool has_equal_layers() const;
  // The last layer with keys of its own.
  std::int64_t last_layer_with_keys() const;
  RotaryLengths rotary_lengths() const;
  // The head size of the layers with this rotary embedding.
  std::int64_t rotary_head_dim(std::size_t index) const;
};

// A decoder whose layers are all the same, as a few numbers: families of dense models read one and
// change what differs, and presets and tests make one up.
struct DecoderShape {
  std::int64_t hidden_size = 0;
  std::int64_t num_layers = 0;
  std::int64_t num_heads = 0;
  std::int64_t num_kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t ffn_size = 0;
  std::int64_t vocab_size = 0;
  std::int64_t max_position_embeddings = 0;
  double rms_norm_eps = 1e-5;
  bool tie_word_embeddings = false;
  bool qkv_bias = false;
  bool o_bias = false;
  bool mlp_bias = false;
  QkNorm qk_norm = QkNorm::none;
  Activation activation = Activation::silu;
  RotarySpec rotary;
  std::vector<std::int32_t> eos_token_ids;
};

ModelSpec decoder_of(const DecoderShape& shape);

// Gives all layers a part, of this size, of inputs by layer, and the table the modules of them.
void add_layer_inputs(std::int64_t size, ModelSpec& spec);

// Refuses a spec with features that the engine does not compute; the error names the feature.
Status check_computable(const ModelSpec& spec);

}  // namespace tandem
