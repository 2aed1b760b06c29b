// An engine's recording is replayed without the engine and gives the same tokens; any other file is
// refused.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "engine/loader/weights.h"
#include "engine/model/families/registry.h"
#include "engine/recording/recording_reader.h"
#include "engine/recording/replay.h"
#include "tests/support/sanitized.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_device.h"
#include "tests/support/test_engine.h"
#include "tests/support/test_seed.h"

namespace tandem::test {
namespace {

using ::testing::HasSubstr;

const std::filesystem::path kModel = "data/tiny-llama";

class Recording : public ::testing::Test {
 protected:
  // Records adapters, chunks, a shared prefix, sampling, penalties, biases, a constraint,
  // log-probabilities, more sequences than can run at once, and a device with room for fewer
  // adapters than are used, one of which acts on the end of its prompt only.
  static void SetUpTestSuite() {
    dir_ = new testing::TempDir();
    EngineOptions options = small_engine_options(128);
    options.max_num_seqs = 4;
    options.max_num_batched_tokens = 24;
    options.max_device_adapters = 2;
    options.max_graph_batch = 4;
    options.recording.path = path();
    options.recording.source = {kModel.string(), "auto", 0};
    auto engine = TestEngine::load(kModel, DType::f32, options);
    const std::filesystem::path activated = dir_->path() / "activated";
    std::filesystem::copy(kModel / "adapters/r4", activated);
    std::ifstream config_file(activated / "adapter_config.json");
    std::string config{std::istreambuf_iterator<char>(config_file), {}};
    const std::string_view off = "\"alora_invocation_tokens\": null";
    ASSERT_NE(config.find(off), std::string::npos);
    // Token 50 of the prompts below.
    config.replace(config.find(off), off.size(),
                   fmt::format("\"alora_invocation_tokens\": [{}]", 5 + 50 * 37 % 4000));
    dir_->write("activated/adapter_config.json", config);
    ASSERT_TRUE(engine->engine->load_adapter("activated", activated.string(), false, false).ok());
    const std::vector<std::string> adapters = {"", "r8", "r16", "r4", "r8", "", "activated"};
    std::vector<std::unique_ptr<Generation>> running;
    for (std::size_t i = 0; i < adapters.size(); ++i) {
      std::vector<TokenId> prompt;
      for (std::size_t k = 0; k < 20 + 9 * i; ++k) {
        prompt.push_back(static_cast<TokenId>(5 + k * 37 % 4000));
      }
      GenerationRequest request = greedy(prompt, 10, adapters[i]);
      if (i == 1) request.sampling.temperature = 0.8;
      if (i == 1) request.n = 2;
      if (i == 2) request.sampling.repetition_penalty = 1.3;
      if (i == 3) request.sampling.logit_bias = {{17, 3.0F}, {18, -3.0F}};
      if (i == 2) request.constraint = {TextConstraint::Kind::regex, "[a-z ]+"};
      if (i == 4) request.prompt_logprobs = true;
      if (i == 4) request.num_logprobs = 2;
      request.sampling.seed = i;
      running.push_back(engine->engine->submit(std::move(request)).value());
    }
    for (auto& each : running) {
      for (const Collected& got : collect(*each)) {
        EXPECT_TRUE(got.error.ok()) << got.error.message();
        EXPECT_EQ(got.tokens.size(), 10U);
      }
    }
  }
  static void TearDownTestSuite() { delete dir_; }

  static std::string path() { return (dir_->path() / "steps").string(); }
  static std::string recorded() {
    std::ifstream file(path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  Result<ReplayOutcome> replay(const std::string& bytes) {
    const std::string other = dir_->write("other", bytes);
    return replay_recording(other, config_, *weights_, *device_, clock_, nullptr,
                            [this](const ReplayedStep& step) { steps_.push_back(step); });
  }

  struct RecordAt {
    std::size_t offset;  // offset of its header
    RecordKind kind;
    std::size_t bytes;  // size of its payload
  };
  static std::vector<RecordAt> records_of(const std::string& bytes) {
    std::vector<RecordAt> records;
    for (std::size_t at = sizeof(RecordingHeader); at < bytes.size();) {
      RecordHeader header;
      std::memcpy(&header, bytes.data() + at, sizeof header);
      records.push_back({at, static_cast<RecordKind>(header.kind), header.bytes});
      at += sizeof header + header.bytes;
    }
    return records;
  }
  // Corrects the checksum, as a person who forges such a file would.
  static void mend_check(std::string& bytes, const RecordAt& record) {
    RecordHeader header;
    std::memcpy(&header, bytes.data() + record.offset, sizeof header);
    header.check =
        check_of(std::string_view(bytes).substr(record.offset + sizeof header, record.bytes));
    std::memcpy(bytes.data() + record.offset, &header, sizeof header);
  }

  static inline testing::TempDir* dir_ = nullptr;
  ModelSpec config_ = load_model_spec(kModel).value();
  std::unique_ptr<WeightSource> weights_ = open_checkpoint(kModel).value();
  std::unique_ptr<Device> device_ = make_test_device();
  SteadyClock clock_;
  std::vector<ReplayedStep> steps_;
};

TEST_F(Recording, IsRunAgainToTheSameTokens) {
  const Result<ReplayOutcome> outcome = replay(recorded());
  ASSERT_TRUE(outcome.ok()) << outcome.status().message();
  EXPECT_GT(outcome->steps, 10);
  EXPECT_EQ(outcome->steps, static_cast<std::int64_t>(steps_.size()));
  EXPECT_GE(outcome->compared, 7 * 10);
  EXPECT_EQ(outcome->different, 0);
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    EXPECT_EQ(steps_[i].number, static_cast<std::int64_t>(i) + 1);
    EXPECT_GT(steps_[i].rows, 0);
  }
}

// A step with such an adapter has more logits, and its masks more words, than one of the base.
TEST(RecordingOfAddedTokens, IsRunAgainToTheSameTokens) {
  const std::filesystem::path model = "data/families/adapters_tokens";
  const testing::TempDir dir;
  const std::string path = (dir.path() / "steps").string();
  {
    EngineOptions options = small_engine_options(128);
    options.recording.path = path;
    options.recording.source = {model.string(), "auto", 0};
    const auto engine = TestEngine::load(model, DType::f32, options);
    std::vector<std::unique_ptr<Generation>> running;
    for (const bool is_constrained : {false, true}) {
      for (const std::string adapter : {"", "grown-tokens"}) {
        GenerationRequest request = greedy({5, 300, 7, adapter.empty() ? 8 : 513}, 8, adapter);
        if (is_constrained) request.constraint = {TextConstraint::Kind::regex, "[a-z ]+"};
        running.push_back(engine->engine->submit(std::move(request)).value());
      }
    }
    for (auto& each : running) EXPECT_TRUE(collect(*each)[0].error.ok());
  }
  const auto device = make_test_device();
  const auto spec = load_model_spec(model).value();
  const auto outcome = replay_recording(path, spec, *open_checkpoint(model).value(), *device,
                                        SteadyClock(), nullptr, [](const ReplayedStep&) {});
  ASSERT_TRUE(outcome.ok()) << outcome.status().message();
  EXPECT_EQ(outcome->compared, 32);
  EXPECT_EQ(outcome->different, 0);
}

TEST_F(Recording, TellsWhichStepSampledOtherTokens) {
  std::string bytes = recorded();
  std::int64_t step = 0;
  for (const RecordAt& record : records_of(bytes)) {
    if (record.kind != RecordKind::result || ++step != 6) continue;
    // u32 ok | u64 number of tokens | the first token
    bytes[record.offset + sizeof(RecordHeader) + 12] ^= 1;
    mend_check(bytes, record);
  }
  const Result<ReplayOutcome> outcome = replay(bytes);
  ASSERT_TRUE(outcome.ok()) << outcome.status().message();
  EXPECT_EQ(outcome->different, 1);
  EXPECT_EQ(steps_[5].different, 1);
}

TEST_F(Recording, IsRefusedWhenItIsCutOff) {
  const std::string bytes = recorded();
  for (const RecordAt& record : records_of(bytes)) {
    for (const std::size_t length :
         {record.offset, record.offset + 1, record.offset + sizeof(RecordHeader),
          record.offset + sizeof(RecordHeader) + record.bytes / 2}) {
      const Result<ReplayOutcome> outcome = replay(bytes.substr(0, length));
      ASSERT_FALSE(outcome.ok()) << length;
      EXPECT_THAT(outcome.status().message(), HasSubstr("it is cut off")) << length;
    }
  }
  EXPECT_THAT(replay("").status().message(), HasSubstr("is no recording"));
  EXPECT_THAT(replay(bytes + '\0').status().message(), HasSubstr("a wrong end"));
  EXPECT_TRUE(steps_.empty());
}

TEST_F(Recording, IsRefusedWhenItIsDamaged) {
  const std::string bytes = recorded();
  for (std::size_t at = 0; at < bytes.size(); at += 97) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(~damaged[at]);
    EXPECT_FALSE(replay(damaged).ok()) << at;
  }
  EXPECT_TRUE(steps_.empty());
}

TEST_F(Recording, IsRefusedWhenItIsOfAnotherModel) {
  config_ = load_model_spec("data/demo-llama").value();
  EXPECT_THAT(replay(recorded()).status().message(), HasSubstr("name theirs"));
}

// A forged file may have any content: it is refused or run, without other effects.
TEST_F(Recording, OfAnyContentDoesNoHarm) {
  const int kRounds = sanitized() ? 100 : 300;
  std::mt19937_64 random(test_seed());
  const std::string bytes = recorded();
  const std::vector<RecordAt> records = records_of(bytes);
  constexpr std::uint32_t kOdd[] = {0, 1, 0x7fffffff, 0x80000000, 0xffffffff, 0x7f800001, 4096};
  std::string same = bytes;
  mend_check(same, records[0]);
  ASSERT_TRUE(replay(same).ok()) << "it is not for its check that what is made is refused";
  for (int round = 0; round < kRounds; ++round) {
    std::string made = bytes;
    // The settings are small and decide most, so every second round changes them.
    const RecordAt& record = round % 2 == 0 ? records[0] : records[random() % records.size()];
    for (int change = 0; change < 1 + round % 3; ++change) {
      const std::size_t at = record.offset + sizeof(RecordHeader) + random() % record.bytes;
      if (random() % 2 == 0) {
        made[at] = static_cast<char>(random());
      } else {
        const std::uint32_t value = kOdd[random() % std::size(kOdd)];
        const std::size_t end = record.offset + sizeof(RecordHeader) + record.bytes;
        std::memcpy(made.data() + at, &value, std::min(sizeof value, end - at));
      }
    }
    mend_check(made, record);
    (void)replay(made);
  }
}

}  // namespace
}  // namespace tandem::test
