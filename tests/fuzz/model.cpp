// Input: a checkpoint's config.json.
#include "base/check.h"
#include "engine/model/families/registry.h"
#include "engine/model/spec/model_spec.h"
#include "tests/fuzz/targets.h"

namespace tandem::fuzz {

void fuzz_model(Bytes bytes) {
  const Result<ModelSpec> config = parse_model_spec(text_of(bytes));
  if (!config) return;
  TANDEM_CHECK(config->num_layers() > 0 && config->hidden_size > 0 && config->vocab_size > 0);
  TANDEM_CHECK(config->attention().kv_heads > 0 &&
               config->attention().heads % config->attention().kv_heads == 0);
  TANDEM_CHECK(config->max_position_embeddings > 0 && config->attention().head_dim > 0 &&
               config->mlp().size > 0);
}

}  // namespace tandem::fuzz
