// Reads the config fields that dense decoders share: sizes, rotary embedding, activation, windows.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "engine/model/families/checkpoint_config.h"
#include "engine/model/families/rotary_fields.h"
#include "engine/model/spec/model_spec.h"

namespace tandem {

struct DecoderFields {
  // The values of fields that a config of this family may leave out. A number that is zero here
  // must be in the config, but for the two below.
  DecoderShape defaults = no_defaults();
  bool needs_kv_heads = true;   // false: as many as heads if 'num_key_value_heads' is absent
  bool needs_head_dim = false;  // false: hidden_size / heads if 'head_dim' is absent
  std::optional<double> partial_rotary = {};  // as RotaryFields::partial
  bool proportional_rotary = false;           // as RotaryFields::proportional

  static DecoderShape no_defaults() {
    DecoderShape shape;
    shape.rms_norm_eps = 0;
    return shape;
  }
};

// Reads the fields that all dense decoders have, as transformers 4 or transformers 5 writes them.
// The rotary embedding is that of full attention.
DecoderShape read_decoder(CheckpointConfig& config, const DecoderFields& fields);

// The fields of read_decoder's rotary embedding, for families with another one beside it.
RotaryFields rotary_fields_of(const DecoderShape& shape);

// True if layer i attends within a window; used if the config has no 'layer_types'.
using WindowedLayers = std::function<bool(std::int64_t)>;

// Gives the layers that attend within a window that of the config ('sliding_window'), or `absent`
// if the config lacks the field. A window that is no shorter than the context makes no difference,
// and is left out. Returns which layers are of the kind with a window, [layers].
std::vector<bool> read_windows(CheckpointConfig& config, const WindowedLayers& by_default,
                               ModelSpec& spec, std::int64_t absent = 0);

// The checkpoint has q, k and v, or gate and up, as rows of one tensor of this name.
void fuse_qkv(std::string_view name, ModelSpec& spec);
void fuse_gate_up(std::string_view name, ModelSpec& spec);

// Gives the layers of the kind with a window a rotary embedding of their own, `fields`.
void read_local_rotary(CheckpointConfig& config, RotaryFields fields,
                       const std::vector<bool>& windowed, ModelSpec& spec);

}  // namespace tandem
