// Input: adapter_config.json, a zero byte, the JSON header of adapter_model.safetensors, a zero
// byte, and the data after that header.
#include <string>

#include "base/check.h"
#include "engine/loader/peft/peft_reader.h"
#include "tests/fuzz/targets.h"
#include "tests/support/safetensors_writer.h"
#include "tests/support/temp_dir.h"

namespace tandem::fuzz {
namespace {

ModelSpec small_base() {
  DecoderShape shape;
  shape.hidden_size = 4;
  shape.num_layers = 2;
  shape.num_heads = 2;
  shape.num_kv_heads = 1;
  shape.head_dim = 2;
  shape.ffn_size = 6;
  shape.vocab_size = 10;
  shape.qkv_bias = true;
  shape.qk_norm = QkNorm::head;
  return decoder_of(shape);
}

}  // namespace

void fuzz_adapter(Bytes bytes) {
  static const testing::TempDir dir;
  static const ModelSpec base = small_base();
  const auto [config, rest] = split_text(text_of(bytes));
  const auto [header, data] = split_text(rest);
  dir.write("adapter_config.json", config);
  dir.write("adapter_model.safetensors", testing::safetensors_bytes(header, data));
  const Result<Adapter> adapter = load_peft_adapter(dir.path(), base, DType::f32);
  if (!adapter) {
    TANDEM_CHECK(!adapter.status().message().empty());
    return;
  }
  TANDEM_CHECK(adapter->layers.size() == 2 && adapter->max_rank >= 1 && adapter->max_rank <= 512);
  for (const AdapterMatrix& matrix : adapter->layers.all()) {
    TANDEM_CHECK(matrix.rank == 0 ||
                 (matrix.a_offset < adapter->num_bytes && matrix.b_offset < adapter->num_bytes));
  }
}

}  // namespace tandem::fuzz
