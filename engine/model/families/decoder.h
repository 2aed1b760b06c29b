// What the configs of dense decoders have in common: sizes, rotary embedding, sliding window.
#pragma once

#include <cstdint>

#include "engine/model/families/checkpoint_config.h"
#include "engine/model/spec/model_spec.h"

namespace tandem {

// How a family's config says that attention slides over a window ('sliding_window').
enum class WindowField : std::uint8_t {
  ignored,     // it has no windows
  always,      // a window that is named is used
  when_asked,  // only with 'use_sliding_window', or where 'layer_types' names it
};

struct DecoderFields {
  bool needs_kv_heads = true;  // else a KV head for each head where 'num_key_value_heads' is absent
  bool needs_head_dim = false;  // else 'hidden_size' is shared out where 'head_dim' is absent
  WindowField window = WindowField::ignored;
};

// Reads the fields that all dense decoders have, in the spelling of transformers 4 and of
// transformers 5. Attention sees the whole context here: a window shorter than the context cuts the
// context to its length, up to which it changes nothing, and the log says so.
DecoderShape read_decoder(CheckpointConfig& config, const DecoderFields& fields);

}  // namespace tandem
