// Mistral 7B and later dense ones (Jiang et al. 2023): Llama, with a sliding window in the first.
#include "engine/model/families/decoder.h"
#include "engine/model/families/families.h"

namespace tandem {

ModelSpec read_mistral(CheckpointConfig& config) {
  return decoder_of(read_decoder(config, {.window = WindowField::always}));
}

}  // namespace tandem
