// Mistral 7B and later dense models (Jiang et al. 2023): Llama; the first has a sliding window.
#include "engine/model/families/decoder.h"
#include "engine/model/families/families.h"

namespace tandem {

ModelSpec read_mistral(CheckpointConfig& config) {
  ModelSpec spec = decoder_of(read_decoder(config, {}));
  read_windows(
      config, [](std::int64_t) { return true; }, spec, kUsualWindow);
  return spec;
}

}  // namespace tandem
