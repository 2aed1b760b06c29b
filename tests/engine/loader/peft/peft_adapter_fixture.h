// Makes adapters in a test, with unusual sizes, tensor by tensor and setting by setting.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/loader/adapter.h"
#include "engine/loader/peft/peft_config.h"
#include "engine/loader/peft/peft_reader.h"
#include "tests/support/safetensors_writer.h"
#include "tests/support/temp_dir.h"

namespace tandem::peft_test {

using Json = nlohmann::ordered_json;

inline ModelSpec base() {
  DecoderShape shape;
  shape.hidden_size = 20;
  shape.num_layers = 3;
  shape.num_heads = 3;
  shape.num_kv_heads = 1;
  shape.head_dim = 6;
  shape.ffn_size = 28;
  shape.vocab_size = 50;
  return decoder_of(shape);
}

inline Json lora(const Json& targets, int rank = 4) {
  return {{"peft_type", "LORA"}, {"base_model_name_or_path", "base"}, {"bias", "none"}, {"r", rank},
          {"lora_alpha", 8},     {"target_modules", targets}};
}

struct StoredTensor {
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
  std::vector<float> values;
};

class PeftAdapter : public ::testing::Test {
 protected:
  // Adds A and B of one module, with different values in all elements.
  void add(int layer, std::string_view name, int rank, DType dtype = DType::f32) {
    const std::size_t module = base().modules.row(name);
    const std::string path = "base_model.model." + module_path(base(), layer, module);
    add_matrix(path + ".lora_A.weight", rank, module_in(base(), layer, module), dtype);
    add_matrix(path + ".lora_B.weight", module_out(base(), layer, module), rank, dtype);
  }
  void add_matrix(const std::string& name, std::int64_t rows, std::int64_t cols,
                  DType dtype = DType::f32) {
    StoredTensor tensor{dtype, {rows, cols}, {}};
    for (std::int64_t i = 0; i < rows * cols; ++i) {
      tensor.values.push_back(static_cast<float>((i * 37 + rows) % 101) / 16 - 3);
    }
    tensors_[name] = std::move(tensor);
  }
  void add_everywhere(std::initializer_list<std::string_view> modules, int rank = 4) {
    for (int layer = 0; layer < 3; ++layer) {
      for (const std::string_view module : modules) add(layer, module, rank);
    }
  }

  void write(const Json& config) {
    dir_.write("adapter_config.json", config.dump());
    testing::SafetensorsWriter writer;
    for (const auto& [name, t] : tensors_) writer.add(name, t.dtype, t.shape, t.values);
    dir_.write("adapter_model.safetensors", writer.bytes());
  }
  Result<Adapter> load_as(DType dtype) const {
    return load_peft_adapter(dir_.path(), base(), dtype);
  }
  Result<Adapter> load() const { return load_as(DType::f32); }
  Result<Adapter> load(const Json& config) {
    write(config);
    return load();
  }
  std::string message(const Json& config) {
    const Result<Adapter> adapter = load(config);
    return adapter ? "accepted" : adapter.status().message();
  }
  std::string message_with(const std::string& field, const Json& value) {
    Json config = lora({"q_proj"});
    config[field] = value;
    return message(config);
  }
  // Returns the adapted modules by layer: "0q 1v".
  std::string adapted(const Json& config) {
    const Result<Adapter> adapter = load(config);
    if (!adapter) return adapter.status().message();
    std::string text;
    for (std::size_t layer = 0; layer < adapter->layers.size(); ++layer) {
      for (std::size_t m = 0; m < base().modules.size(); ++m) {
        if (adapter->layers[layer][m].rank == 0) continue;
        const std::string name(base().modules[m].name());
        text +=
            fmt::format("{}{}{}", text.empty() ? "" : " ", layer, name.substr(0, name.find('_')));
      }
    }
    return text;
  }

  testing::TempDir dir_;
  std::map<std::string, StoredTensor> tensors_;
};

}  // namespace tandem::peft_test
