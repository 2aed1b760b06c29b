// The goldens in tests/data: results of transformers + PEFT in float32 for the same files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace tandem::test {

struct GoldenCase {
  std::string adapter;                                // empty: the base model
  std::vector<std::pair<std::string, float>> scales;  // of a set (golden_sets.json): its adapters
  std::vector<std::int32_t> prompt;
  std::vector<std::int32_t> output;  // greedy; does not stop at an end token
  std::vector<float> logprobs;       // of the output
  std::vector<float> margins;        // best minus second best logit at each output token
  std::vector<float> logits;         // at the last prompt position; empty in golden.json
  std::string text;                  // decoded output; empty in golden_tiny.json

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
