// A whole engine on the test device, from a folder of tests/data or a made-up configuration.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "engine/batching/engine.h"
#include "engine/model/spec/model_spec.h"
#include "engine/tokenizer/tokenizer.h"
#include "gpu/device.h"

namespace tandem::test {

// Options that suit the test models; num_pages holds 16 sequences of max_model_len.
EngineOptions small_engine_options(std::int32_t max_model_len = 512);

struct TestEngine {
  std::unique_ptr<Device> device;
  std::vector<std::unique_ptr<Device>> others;  // the other devices that share the model
  ModelSpec config;
  std::unique_ptr<Tokenizer> tokenizer;
  SteadyClock clock;
  std::unique_ptr<Engine> engine;

  // Loads the model with every adapter of DIR/adapters under its folder's name; on a GPU without
  // those that it cannot compute.
  static std::unique_ptr<TestEngine> load(const std::filesystem::path& dir, DType dtype,
                                          const EngineOptions& options, int num_devices = 1);
  // Makes an engine with random weights of any shape and the demo model's tokenizer.
  static std::unique_ptr<TestEngine> dummy(const ModelSpec& config, DType dtype,
                                           const EngineOptions& options, int num_devices = 1);
};

// The complete output of one continuation.
struct Collected {
  std::vector<TokenId> tokens;
  std::string text;
  std::vector<TokenLogprob> logprobs;
  std::vector<TokenLogprob> prompt_logprobs;
  FinishReason finish = FinishReason::none;
  std::string stop_reason;
  Status error;
};

// Reads a generation to its end, by continuation. The test fails after a minute without output.
std::vector<Collected> collect(Generation& generation);
// Submits and collects; the test fails if the request is refused.
std::vector<Collected> run(Engine& engine, GenerationRequest request);

// Makes a greedy request for `max_tokens` tokens that ignores end tokens, as for the goldens.
GenerationRequest greedy(std::vector<TokenId> prompt, std::int32_t max_tokens,
                         const std::string& adapter = "");

}  // namespace tandem::test
