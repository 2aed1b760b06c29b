#include "tests/support/test_engine.h"

#include <gtest/gtest.h>

#include <chrono>
#include <iostream>

#include "base/check.h"
#include "engine/loader/weights.h"
#include "engine/model/families/registry.h"
#include "engine/model/spec/spread.h"
#include "tests/support/test_device.h"

namespace tandem::test {
namespace {

std::unique_ptr<TestEngine> assemble(const std::filesystem::path& tokenizer_dir, ModelSpec config,
                                     const WeightSource& weights, DType dtype,
                                     const EngineOptions& options, int num_devices = 1) {
  auto result = std::make_unique<TestEngine>();
  result->device = make_test_device();
  std::vector<Device*> devices = {result->device.get()};
  while (static_cast<int>(devices.size()) < num_devices) {
    const int rank = static_cast<int>(devices.size());
    devices.push_back(result->others.emplace_back(make_test_device(rank)).get());
  }
  result->config = std::move(config);
  auto tokenizer = Tokenizer::load(tokenizer_dir);
  TANDEM_CHECK(tokenizer.ok(), "{}", tokenizer.status().message());
  result->tokenizer = std::move(tokenizer).value();
  auto engine = Engine::create(options, result->config, weights, dtype, devices, *result->tokenizer,
                               result->clock, nullptr);
  TANDEM_CHECK(engine.ok(), "{}", engine.status().message());
  result->engine = std::move(engine).value();
  return result;
}

}  // namespace

EngineOptions small_engine_options(std::int32_t max_model_len) {
  EngineOptions options;
  options.max_num_seqs = 64;
  options.max_num_batched_tokens = 512;
  options.max_model_len = max_model_len;
  options.page_tokens = 16;
  options.num_pages = 16 * (max_model_len + 15) / 16;
  options.max_adapters = 32;
  options.host_tier_bytes = std::size_t{32} << 20;
  return options;
}

std::unique_ptr<TestEngine> TestEngine::load(const std::filesystem::path& dir, DType dtype,
                                             const EngineOptions& options, int num_devices) {
  auto config = load_model_spec(dir);
  TANDEM_CHECK(config.ok(), "{}", config.status().message());
  auto weights = open_checkpoint(dir);
  TANDEM_CHECK(weights.ok(), "{}", weights.status().message());
  const bool has_tokenizer = std::filesystem::exists(dir / "tokenizer.json");
  auto result = assemble(has_tokenizer ? dir : "data/demo-llama", spread_over(*config, num_devices),
                         **weights, dtype, options, num_devices);
  const bool is_file = std::filesystem::is_regular_file(dir);
  const std::filesystem::path adapters = (is_file ? dir.parent_path() : dir) / "adapters";
  if (std::filesystem::exists(adapters)) {
    for (const auto& entry : std::filesystem::directory_iterator(adapters)) {
      const Status status = result->engine->load_adapter(entry.path().filename().string(),
                                                         entry.path().string(), false, false);
      // GPUs take fewer kinds of adapters.
      if (!status.ok() && result->device->info().is_cuda) {
        std::cerr << "left out: " << status.message() << "\n";
        continue;
      }
      TANDEM_CHECK(status.ok(), "{}", status.message());
    }
  }
  return result;
}

std::unique_ptr<TestEngine> TestEngine::dummy(const ModelSpec& config, DType dtype,
                                              const EngineOptions& options, int num_devices) {
  return assemble("data/demo-llama", spread_over(config, num_devices), *make_dummy_weights(7),
                  dtype, options, num_devices);
}

std::vector<Collected> collect(Generation& generation) {
  std::vector<Collected> result;
  while (!generation.done()) {
    std::optional<OutputDelta> delta = generation.next(std::chrono::minutes(1));
    if (!delta) {
      if (generation.done()) break;
      ADD_FAILURE() << "no news for a minute";
      break;
    }
    const auto index = static_cast<std::size_t>(delta->index);
    if (result.size() <= index) result.resize(index + 1);
    Collected& to = result[index];
    to.tokens.insert(to.tokens.end(), delta->tokens.begin(), delta->tokens.end());
    to.text += delta->text;
    to.logprobs.insert(to.logprobs.end(), delta->logprobs.begin(), delta->logprobs.end());
    to.prompt_logprobs.insert(to.prompt_logprobs.end(), delta->prompt_logprobs.begin(),
                              delta->prompt_logprobs.end());
    EXPECT_EQ(to.finish, FinishReason::none) << "news after the end";
    to.finish = delta->finish;
    to.stop_reason = delta->stop_reason;
    to.error = delta->error;
  }
  return result;
}

std::vector<Collected> run(Engine& engine, GenerationRequest request) {
  auto generation = engine.submit(std::move(request));
  if (!generation.ok()) {
    ADD_FAILURE() << generation.status().message();
    return std::vector<Collected>(1);
  }
  return collect(**generation);
}

GenerationRequest greedy(std::vector<TokenId> prompt, std::int32_t max_tokens,
                         const std::string& adapter) {
  GenerationRequest request;
  request.adapter = adapter;
  request.prompt = std::move(prompt);
  request.sampling.temperature = 0;
  request.max_tokens = max_tokens;
  request.ignore_eos = true;
  return request;
}

}  // namespace tandem::test
