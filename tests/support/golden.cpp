#include "tests/support/golden.h"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

namespace tandem::test {

std::string GoldenCase::name() const {
  return fmt::format("{} on {} prompt tokens", adapter.empty() ? "base" : adapter, prompt.size());
}

std::vector<GoldenCase> read_golden(const std::filesystem::path& file) {
  std::ifstream stream(file);
  const nlohmann::json golden = nlohmann::json::parse(stream);
  std::vector<GoldenCase> result;
  for (const auto& from : golden.at("cases")) {
    GoldenCase to;
    to.adapter = from.at("adapter").get<std::string>();
    if (to.adapter == "base") to.adapter.clear();
    if (const auto scales = from.find("scales"); scales != from.end()) {
      for (const auto& [name, scale] : scales->items()) to.scales.emplace_back(name, scale);
    }
    golden.at("prompts").at(from.at("prompt").get<std::size_t>()).at("ids").get_to(to.prompt);
    // Keys that stay as they were rotated, where transformers' cache differs from a whole pass.
    const bool cached = from.contains("cached");
    from.at(cached ? "cached" : "output_ids").get_to(to.output);
    from.at(cached ? "cached_logprobs" : "logprobs").get_to(to.logprobs);
    from.at("margins").get_to(to.margins);
    if (from.contains("logits")) from.at("logits").get_to(to.logits);
    to.text = from.value("text", "");
    result.push_back(std::move(to));
  }
  return result;
}

std::vector<GoldenModel> golden_models() {
  std::vector<GoldenModel> result = {{"demo-llama", "data/demo-llama", "data/golden.json"}};
  for (const char* name : {"tiny-llama", "tiny-mistral", "tiny-qwen2", "tiny-qwen3"}) {
    const std::filesystem::path dir = std::filesystem::path("data") / name;
    result.push_back({name, dir, dir / "golden_tiny.json"});
  }
  return result;
}

}  // namespace tandem::test
