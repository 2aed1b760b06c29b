#include "engine/loader/weights.h"

#include <gmock/gmock.h>

#include <cmath>
#include <fstream>
#include <numeric>
#include <sstream>
#include <thread>

#include "engine/model/families/registry.h"
#include "tests/gpu/reference/packed_twin.h"
#include "tests/support/packed_memory.h"
#include "tests/support/safetensors_writer.h"
#include "tests/support/temp_dir.h"

namespace tandem {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::SafetensorsWriter;
using testing::TempDir;
using Shape = std::vector<std::int64_t>;

std::vector<float> read(const WeightSource& source, std::string_view name, const Shape& shape,
                        DType dtype = DType::f32) {
  const auto count = static_cast<std::size_t>(
      std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>()));
  std::vector<std::byte> raw(count * size_of(dtype));
  const Status status = source.read(name, shape, dtype, raw.data());
  EXPECT_TRUE(status) << status.message();
  std::vector<float> values(count);
  convert(dtype, raw.data(), DType::f32, values.data(), count);
  return values;
}

std::string failure(const WeightSource& source, std::string_view name, const Shape& shape) {
  std::vector<float> target(64);
  return source.read(name, shape, DType::f32, target.data()).message();
}

TEST(Checkpoint, ConvertsEveryTypeIntoEveryType) {
  const std::vector<float> values = {1, -2.5F, 0.125F, 64, -0.0F, 3};
  for (const DType stored : {DType::f32, DType::f16, DType::bf16}) {
    const TempDir dir;
    dir.write("model.safetensors", SafetensorsWriter().add("w", stored, {2, 3}, values).bytes());
    const auto checkpoint = open_checkpoint(dir.path());
    ASSERT_TRUE(checkpoint) << checkpoint.status().message();
    EXPECT_TRUE((*checkpoint)->has("w"));
    EXPECT_FALSE((*checkpoint)->has("lm_head.weight"));
    for (const DType wanted : {DType::f32, DType::f16, DType::bf16}) {
      EXPECT_EQ(read(**checkpoint, "w", {2, 3}, wanted), values);
    }
  }
}

TEST(WeightSource, ReadsAPartAsItIsInTheWhole) {
  constexpr std::size_t kCount = 70'000;
  const Shape shape = {70, 1000};
  std::vector<float> values(kCount);
  std::iota(values.begin(), values.end(), -5000.0F);
  const TempDir dir;
  dir.write("model.safetensors", SafetensorsWriter().add("w", DType::f32, shape, values).bytes());
  const auto checkpoint = open_checkpoint(dir.path());
  ASSERT_TRUE(checkpoint) << checkpoint.status().message();
  const auto dummy = make_dummy_weights(3);
  for (const WeightSource* source : {checkpoint->get(), dummy.get()}) {
    const std::vector<float> whole = read(*source, "w", shape);
    for (const std::size_t begin : {0, 4, 4096, 69'996, 70'000, 80'000}) {
      std::vector<float> part(5000, 77);
      const Status status = source->read_part("w", shape, DType::f32, begin, 4999, part.data());
      ASSERT_TRUE(status) << status.message();
      for (std::size_t i = 0; i < part.size(); ++i) {
        const bool inside = i < 4999 && begin + i < kCount;
        ASSERT_EQ(part[i], inside ? whole[begin + i] : 77) << begin << " + " << i;
      }
    }
  }
}

TEST(Checkpoint, ReadsTensorsThatAreNotAligned) {
  const TempDir dir;
  std::vector<float> values(10'001);
  std::iota(values.begin(), values.end(), -5000.0F);
  for (const DType stored : {DType::f32, DType::f16}) {
    SafetensorsWriter writer;
    writer.add_raw("odd", "U8", {1}, "x").add("w", stored, {10'001}, values);
    dir.write("model.safetensors", writer.bytes());
    const auto checkpoint = open_checkpoint(dir.path());
    ASSERT_TRUE(checkpoint) << checkpoint.status().message();
    std::vector<float> expected = values;
    if (stored == DType::f16) {
      for (float& v : expected) v = to_float(from_float<f16>(v));
    }
    EXPECT_EQ(read(**checkpoint, "w", {10'001}), expected);
    EXPECT_EQ(read(**checkpoint, "w", {10'001}, stored), expected);
  }
}

TEST(Checkpoint, SplitsLargeTensorsWithoutLosingAny) {
  const TempDir dir;
  // More than two pieces, and not a multiple of one.
  std::vector<float> values(5'000'003);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 65'521);
  dir.write("model.safetensors",
            SafetensorsWriter().add("w", DType::f32, {5'000'003}, values).bytes());
  const auto checkpoint = open_checkpoint(dir.path());
  ASSERT_TRUE(checkpoint);
  EXPECT_EQ(read(**checkpoint, "w", {5'000'003}), values);
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] { EXPECT_EQ(read(**checkpoint, "w", {5'000'003}), values); });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Checkpoint, NamesTheTensorAndBothShapes) {
  const TempDir dir;
  dir.write("model.safetensors", SafetensorsWriter()
                                     .add("w", DType::bf16, {2, 3}, std::vector<float>(6))
                                     .add_raw("ids", "I64", {1}, std::string(8, '\0'))
                                     .add_raw("count", "I32", {1}, std::string(4, '\0'))
                                     .bytes());
  const auto checkpoint = open_checkpoint(dir.path());
  ASSERT_TRUE(checkpoint) << checkpoint.status().message();
  EXPECT_THAT(failure(**checkpoint, "v", {2, 3}), HasSubstr("no tensor 'v'"));
  EXPECT_THAT(failure(**checkpoint, "w", {3, 2}),
              HasSubstr("tensor 'w' is BF16[2, 3], config.json asks for [3, 2]"));
  EXPECT_THAT(failure(**checkpoint, "ids", {1}), HasSubstr("take the unquantised checkpoint"));
  EXPECT_THAT(failure(**checkpoint, "count", {1}), HasSubstr("take the unquantised checkpoint"));
}

TEST(Checkpoint, KnowsAQuantisedOneByTheNamesOfItsTensors) {
  for (const char* packed : {"q_proj.qweight", "q_proj.weight_packed"}) {
    const TempDir dir;
    dir.write("model.safetensors",
              SafetensorsWriter().add_raw(packed, "I32", {1}, std::string(4, '\0')).bytes());
    const auto checkpoint = open_checkpoint(dir.path());
    ASSERT_TRUE(checkpoint) << checkpoint.status().message();
    EXPECT_THAT(failure(**checkpoint, "q_proj.weight", {1}),
                AllOf(HasSubstr("is quantised"), HasSubstr(packed)));
    EXPECT_THAT(failure(**checkpoint, "k_proj.weight", {1}), HasSubstr("no tensor"));
  }
}

class Shards : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_.write("model-1.safetensors", SafetensorsWriter().add("a", DType::f32, {1}, {1}).bytes());
    dir_.write("model-2.safetensors", SafetensorsWriter().add("b", DType::f32, {1}, {2}).bytes());
  }
  Result<std::unique_ptr<WeightSource>> open(std::string_view weight_map) {
    dir_.write("model.safetensors.index.json",
               fmt::format(R"({{"metadata":{{}},"weight_map":{}}})", weight_map));
    return open_checkpoint(dir_.path());
  }
  std::string message(std::string_view weight_map) {
    const auto checkpoint = open(weight_map);
    return checkpoint ? "accepted" : checkpoint.status().message();
  }

  TempDir dir_;
};

TEST_F(Shards, AreReadThroughTheIndex) {
  const auto checkpoint = open(R"({"a":"model-1.safetensors","b":"model-2.safetensors"})");
  ASSERT_TRUE(checkpoint) << checkpoint.status().message();
  EXPECT_THAT(read(**checkpoint, "a", {1}), ElementsAre(1));
  EXPECT_THAT(read(**checkpoint, "b", {1}), ElementsAre(2));
}

TEST_F(Shards, MayBeLinks) {
  std::filesystem::rename(dir_.path() / "model-2.safetensors", dir_.path() / "blob");
  std::filesystem::create_symlink("blob", dir_.path() / "model-2.safetensors");
  EXPECT_EQ(message(R"({"b":"model-2.safetensors"})"), "accepted");
}

TEST_F(Shards, MustBeFilesOfTheFolder) {
  for (const char* name :
       {"../model-1.safetensors", "/etc/passwd", "x/y.safetensors", "..", "", "config.json"}) {
    EXPECT_THAT(message(fmt::format(R"({{"a":"{}"}})", name)), HasSubstr("is not the name of"));
  }
  EXPECT_THAT(message(R"({"a":1})"), HasSubstr("'a' names no file"));
  EXPECT_THAT(message("[]"), HasSubstr("weight_map"));
}

TEST_F(Shards, AreNamedWhenMissingOrBroken) {
  EXPECT_THAT(message(R"({"a":"model-1.safetensors","c":"model-3.safetensors"})"),
              HasSubstr("model-3.safetensors"));
  EXPECT_THAT(message(R"({"b":"model-1.safetensors"})"),
              HasSubstr("tensor 'b' in model-1.safetensors, which does not hold it"));
  dir_.write("model-2.safetensors", "short");
  EXPECT_THAT(message(R"({"b":"model-2.safetensors"})"), HasSubstr("model-2.safetensors"));
}

TEST(Checkpoint, SaysWhatAFolderWithoutOneLacks) {
  const TempDir dir;
  EXPECT_THAT(open_checkpoint(dir.path()).status().message(),
              HasSubstr("neither model.safetensors nor"));
  dir.write("pytorch_model.bin", "pickle");
  EXPECT_THAT(open_checkpoint(dir.path()).status().message(), HasSubstr("pickle"));
  const TempDir gguf;
  gguf.write("model.gguf", "GGUF");
  EXPECT_THAT(open_checkpoint(gguf.path()).status().message(), HasSubstr("holds a GGUF file"));
}

TEST(Checkpoint, ReadsTheShippedModels) {
  for (const char* name :
       {"demo-llama", "tiny-llama", "tiny-llama-f32", "tiny-mistral", "tiny-qwen2", "tiny-qwen3"}) {
    const std::filesystem::path dir = std::filesystem::path("data") / name;
    const ModelSpec config = load_model_spec(dir).value();
    const auto checkpoint = open_checkpoint(dir);
    ASSERT_TRUE(checkpoint) << checkpoint.status().message();
    EXPECT_EQ((*checkpoint)->has("lm_head.weight"), !config.tie_word_embeddings);
    const auto norm = read(**checkpoint, "model.norm.weight", {config.hidden_size});
    EXPECT_TRUE(std::ranges::all_of(norm, [](float x) { return std::isfinite(x) && x != 0; }));
    read(**checkpoint, "model.embed_tokens.weight", {config.vocab_size, config.hidden_size});
  }
}

TEST(DummyWeights, AreTheSameForTheSameSeedAndName) {
  const auto one = make_dummy_weights(1);
  const auto again = make_dummy_weights(1);
  const auto two = make_dummy_weights(2);
  EXPECT_TRUE(one->has("lm_head.weight"));
  const auto values = read(*one, "x.weight", {30, 70});
  EXPECT_EQ(values, read(*again, "x.weight", {30, 70}));
  EXPECT_NE(values, read(*two, "x.weight", {30, 70}));
  EXPECT_NE(values, read(*one, "y.weight", {30, 70}));
}

TEST(DummyWeights, DoNotDependOnTheNumberOfThreads) {
  const auto source = make_dummy_weights(5);
  // Large enough for several pieces; the first rows on their own are made in one piece.
  const auto large = read(*source, "w", {1301, 4001});
  std::vector<float> start = read(*source, "w", {11, 4001});
  EXPECT_TRUE(std::equal(start.begin(), start.end(), large.begin()));
  const auto again = read(*source, "w", {1301, 4001});
  EXPECT_EQ(large, again);
}

TEST(DummyWeights, HaveTheMeanAndSpreadOfAnInitialisation) {
  const auto source = make_dummy_weights(3);
  const auto values = read(*source, "model.layers.0.mlp.up_proj.weight", {2000, 400});
  double sum = 0;
  double squares = 0;
  for (const float v : values) {
    sum += v;
    squares += double{v} * v;
    ASSERT_LE(std::fabs(v), std::sqrt(3.0 / 400));
  }
  const auto n = static_cast<double>(values.size());
  EXPECT_NEAR(sum / n, 0, 3e-4);
  EXPECT_NEAR(std::sqrt(squares / n), 0.05, 1e-3);
  double neighbours = 0;
  for (std::size_t i = 1; i < values.size(); ++i) neighbours += double{values[i]} * values[i - 1];
  EXPECT_NEAR(neighbours / squares, 0, 0.01);
  for (const float v : read(*source, "model.norm.weight", {512})) EXPECT_NEAR(v, 1, 0.1);
}

TEST(DummyWeights, AgreeAcrossTypesUpToRounding) {
  const auto source = make_dummy_weights(3);
  const auto exact = read(*source, "w", {3, 1000});
  const auto rounded = read(*source, "w", {3, 1000}, DType::bf16);
  for (std::size_t i = 0; i < exact.size(); ++i) {
    EXPECT_EQ(rounded[i], to_float(from_float<bf16>(exact[i])));
  }
}

constexpr DummyFormat kDummyFormats[] = {DummyFormat::fp8, DummyFormat::w8, DummyFormat::w4,
                                         DummyFormat::nf4};
constexpr char kProjection[] = "model.layers.0.mlp.up_proj.weight";

TEST(DummyWeights, OfAFormatHaveTheNumbersOfTheirPackedRows) {
  for (const DummyFormat format : kDummyFormats) {
    SCOPED_TRACE(static_cast<int>(format));
    const auto source = make_dummy_weights(3, 1, format);
    const std::int64_t shape[] = {300, 192};  // the last affine group is short
    const auto values = read(*source, kProjection, {300, 192});
    const std::optional<PackedForm> packed = source->form_of(kProjection, shape);
    ASSERT_TRUE(packed.has_value());
    constexpr std::int64_t kFirst = 17, kCount = 200;
    const test::PackedMemory memory(*packed, kCount, 192);
    const Weight& weight = memory.weight();
    ASSERT_TRUE(source->read_packed(kProjection, shape, kFirst, kCount, weight.packed).ok());
    for (std::int64_t row = 0; row < kCount; ++row) {
      const std::vector<float> got = reference::row_of(weight, row);
      const auto want = values.begin() + (kFirst + row) * 192;
      ASSERT_TRUE(std::equal(got.begin(), got.end(), want)) << row;
    }
  }
}

TEST(DummyWeights, OfAFormatHaveTheSpreadOfAnInitialisation) {
  for (const DummyFormat format : kDummyFormats) {
    const auto source = make_dummy_weights(3, 1, format);
    double squares = 0;
    const auto values = read(*source, kProjection, {1000, 256});
    for (const float v : values) squares += double{v} * v;
    EXPECT_NEAR(std::sqrt(squares / static_cast<double>(values.size()) * 256), 1, 0.02)
        << static_cast<int>(format);
    const std::int64_t shape[] = {1000, 256};
    EXPECT_FALSE(source->form_of("model.embed_tokens.weight", shape).has_value());
    const std::int64_t ragged[] = {1000, 100};
    EXPECT_FALSE(source->form_of(kProjection, ragged).has_value());
  }
}

}  // namespace
}  // namespace tandem
