// The rows of a decoder's ModuleTable.
#pragma once

#include <vector>

#include "engine/model/spec/module_table.h"

namespace tandem {

// The modules of attention with grouped queries and of a gated MLP, what may replace them and those
// of inputs by layer, and the embedding and the head.
std::vector<AdaptedModule> decoder_modules();

// The modules that make and add inputs by layer, as LoRA.
std::vector<AdaptedModule> layer_input_modules();

}  // namespace tandem
