// The places of the text model in multimodal checkpoints.
#pragma once

#include <array>
#include <string_view>

namespace tandem {

// The tensors' root, as TensorNames::root, and the name of the head's tensor.
struct TextModelPlace {
  std::string_view root;
  std::string_view head;
};

// Both have been written, and PEFT's paths have either.
inline constexpr std::array<TextModelPlace, 2> kTextModelPlaces = {
    {{"model.language_model.", "lm_head.weight"},
     {"language_model.model.", "language_model.lm_head.weight"}}};

}  // namespace tandem
