// Input: a whole file.
#include "engine/loader/gguf/gguf_config.h"
#include "engine/loader/gguf/gguf_model.h"
#include "engine/loader/gguf/gguf_packing.h"
#include "engine/loader/gguf/gguf_tokenizer.h"

#include <vector>

#include "base/check.h"
#include "tests/fuzz/memory_file.h"
#include "tests/fuzz/targets.h"
#include "tests/support/packed_memory.h"

namespace tandem::fuzz {

void fuzz_gguf(Bytes bytes) {
  static const MemoryFile file;
  file.write(text_of(bytes));
  const Result<GgufModel> model = GgufModel::open(file.path());
  if (!model) return;
  std::size_t total = 0;
  std::vector<float> values;
  for (const auto& [name, place] : model->tensors()) {
    const auto packed = place.file->bytes(*place.tensor);
    const GgufType& type = *place.tensor->type;
    values.resize(packed.size() / type.bytes * type.elements);
    type.to_float(packed.data(), packed.size() / type.bytes, values.data());
    total += packed.size();
    if (const std::optional<WeightForm> form = gguf_form(type)) {
      const std::size_t blocks = packed.size() / type.bytes;
      const test::PackedMemory memory(*form, 1, static_cast<std::int64_t>(blocks * type.elements));
      pack_gguf_row(type, packed.data(), blocks, memory.weight().packed);
    }
    TANDEM_CHECK(!to_string(*place.tensor).empty());
    const Result<std::int64_t> heads = interleaved_heads(*model, name);
    TANDEM_CHECK(!heads || *heads == 0 || place.tensor->shape.front() % (2 * *heads) == 0);
  }
  TANDEM_CHECK(total <= bytes.size(), "{} bytes of {}", total, bytes.size());
  for (const auto& translate :
       {gguf_config, gguf_generation_config, gguf_tokenizer, gguf_tokenizer_config}) {
    const Result<nlohmann::json> json = translate(*model);
    if (json) TANDEM_CHECK(json->is_object());
  }
  (void)rotary_divisors(*model);
}

}  // namespace tandem::fuzz
