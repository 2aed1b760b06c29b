// Reads the config fields of rotary embeddings.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "engine/model/families/checkpoint_config.h"
#include "engine/model/spec/model_spec.h"

namespace tandem {

// How a family's config says how its layers, or one kind of them, rotate.
struct RotaryFields {
  std::int64_t head_dim = 0;
  std::int64_t max_positions = 0;  // 'max_position_embeddings'
  // In 'rope_parameters' of transformers 5, the key of this kind of layers, if it has one for each.
  std::string_view layer_type = "full_attention";
  // The fields of transformers 4: this one, and 'rope_scaling' unless the kind is never scaled.
  std::string_view theta_name = "rope_theta";
  bool scaled = true;
  // The defaults, used if the config says nothing.
  double theta = 10000;
  // 'partial_rotary_factor', the part of a head that rotates. No value: the family rotates whole
  // heads, and a config that asks for something else fails.
  std::optional<double> partial;
  // The family has the type "proportional": frequencies of whole heads, of which only those of the
  // part are not 0.
  bool proportional = false;
};

// If the fields ask for a rotary embedding that Tandem does not compute, fails the config by name.
RotarySpec read_rotary(CheckpointConfig& config, const RotaryFields& fields);

}  // namespace tandem
