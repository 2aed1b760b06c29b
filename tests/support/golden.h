// The goldens of tests/data: what transformers + PEFT computed in float32 from the same files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace tandem::test {

struct GoldenCase {
  std::string adapter;  // empty: base
  std::vector<std::int32_t> prompt;
  std::vector<std::int32_t> output;  // greedy, not stopped at the end token
  std::vector<float> logprobs;       // of the output
  std::vector<float> margins;        // between the best and the second best logit, at each output
  std::vector<float> logits;         // of the last prompt position; empty in golden.json
  std::string text;                  // of the output; empty in golden_tiny.json

  std::string name() const;
};

// `file` is golden.json or a golden_tiny.json.
std::vector<GoldenCase> read_golden(const std::filesystem::path& file);

// The model folders of tests/data with goldens, the demo model first.
struct GoldenModel {
  std::string name;
  std::filesystem::path dir;
  std::filesystem::path golden;
};
std::vector<GoldenModel> golden_models();

}  // namespace tandem::test
