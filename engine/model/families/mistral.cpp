// Mistral 7B and later dense models (Jiang et al. 2023): Llama; the first has a sliding window.
#include "engine/model/families/decoder.h"
#include "engine/model/families/families.h"

namespace tandem {

ModelSpec read_mistral(CheckpointConfig& config) {
  return decoder_of(read_decoder(config, {.window = WindowField::always}));
}

}  // namespace tandem
