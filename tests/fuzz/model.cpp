// A checkpoint's config.json.
#include "base/check.h"
#include "engine/loader/model_config.h"
#include "tests/fuzz/targets.h"

namespace tandem::fuzz {

void fuzz_model(Bytes bytes) {
  const Result<ModelConfig> config = parse_model_config(text_of(bytes));
  if (!config) return;
  TANDEM_CHECK(config->num_layers > 0 && config->hidden_size > 0 && config->vocab_size > 0);
  TANDEM_CHECK(config->num_kv_heads > 0 && config->num_heads % config->num_kv_heads == 0);
  TANDEM_CHECK(config->max_position_embeddings > 0 && config->head_dim > 0 && config->ffn_size > 0);
}

}  // namespace tandem::fuzz
