// Reads the config fields that dense decoders share: sizes, rotary embedding, sliding window.
#pragma once

#include <cstdint>

#include "engine/model/families/checkpoint_config.h"
#include "engine/model/spec/model_spec.h"

namespace tandem {

// How a family's config says that attention uses a sliding window ('sliding_window').
enum class WindowField : std::uint8_t {
  ignored,     // the family has no windows
  always,      // a window in the config is used
  when_asked,  // only with 'use_sliding_window', or if 'layer_types' asks for it
};

struct DecoderFields {
  bool needs_kv_heads = true;   // false: as many as heads if 'num_key_value_heads' is absent
  bool needs_head_dim = false;  // false: hidden_size / heads if 'head_dim' is absent
  WindowField window = WindowField::ignored;
};

// Reads the fields that all dense decoders have, as transformers 4 or transformers 5 writes them.
// Attention here always sees the whole context. A window shorter than the context makes no
// difference up to its length, so the context is cut to that length, and the log says so.
DecoderShape read_decoder(CheckpointConfig& config, const DecoderFields& fields);

}  // namespace tandem
