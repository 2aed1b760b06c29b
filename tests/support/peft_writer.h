// Writes random adapters in PEFT's format.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "engine/loader/adapter.h"
#include "tests/support/safetensors_writer.h"
#include "tests/support/temp_dir.h"

namespace tandem::testing {

// Writes an f32 adapter of one rank on `modules` of all layers to dir/name, determined by the seed.
inline std::string write_peft_adapter(const TempDir& dir, const std::string& name,
                                      const ModelSpec& config, std::int32_t rank,
                                      const std::vector<std::string_view>& modules,
                                      std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<float> uniform(-0.1F, 0.1F);
  const auto values = [&](std::int64_t count) {
    std::vector<float> made(static_cast<std::size_t>(count));
    for (float& value : made) value = uniform(random);
    return made;
  };
  SafetensorsWriter weights;
  std::string targets;
  for (const std::string_view module : modules) {
    targets += fmt::format("{}\"{}\"", targets.empty() ? "" : ",", module);
  }
  for (std::int64_t layer = 0; layer < config.num_layers(); ++layer) {
    for (const std::string_view name_of_module : modules) {
      const std::size_t module = config.modules.row(name_of_module);
      const std::int64_t in = module_in(config, layer, module);
      const std::int64_t out = module_out(config, layer, module);
      if (out == 0) continue;
      const AdaptedModule& row = config.modules[module];
      const bool is_embedding = row.site == Site::embedding;
      const std::string_view root = row.place == ModulePlace::top ? "" : "model.";
      const std::string_view ending = is_embedding ? "" : ".weight";
      const auto name_of = [&](std::string_view letter) {
        return fmt::format("base_model.model.{}{}{}.lora_{}{}{}", root,
                           row.place == ModulePlace::layer ? fmt::format("layers.{}.", layer) : "",
                           row.path, is_embedding ? "embedding_" : "", letter, ending);
      };
      weights.add(name_of("A"), DType::f32, {rank, in}, values(rank * in));
      weights.add(name_of("B"), DType::f32, {out, rank}, values(out * rank));
    }
  }
  dir.write(name + "/adapter_config.json",
            fmt::format(R"({{"peft_type":"LORA","base_model_name_or_path":"base","bias":"none",)"
                        R"("r":{},"lora_alpha":8,"target_modules":[{}]}})",
                        rank, targets));
  dir.write(name + "/adapter_model.safetensors", weights.bytes());
  return (dir.path() / name).string();
}

}  // namespace tandem::testing
