#include "engine/loader/safetensors/safetensors.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstring>
#include <random>

#include "tests/support/safetensors_writer.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_seed.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;
using testing::SafetensorsWriter;
using testing::TempDir;

std::string sound_file() {
  return SafetensorsWriter()
      .add("a", DType::f32, {2, 3}, {1, 2, 3, 4, 5, 6})
      .add("b", DType::bf16, {4}, {1, 2, 3, 4})
      .add("empty", DType::f16, {0, 7}, {})
      .add("scalar", DType::f32, {}, {7})
      .bytes();
}

class Safetensors : public ::testing::Test {
 protected:
  Result<SafetensorsFile> open(const std::string& contents) {
    return SafetensorsFile::open(dir_.write("model.safetensors", contents));
  }
  std::string message(const std::string& header, std::size_t data_bytes) {
    const auto file = open(testing::safetensors_bytes(header, std::string(data_bytes, '\0')));
    return file ? "accepted" : file.status().message();
  }

  TempDir dir_;
};

TEST_F(Safetensors, GivesTypeShapeAndBytesOfEachTensor) {
  const Result<SafetensorsFile> file = open(sound_file());
  ASSERT_TRUE(file) << file.status().message();
  const TensorInfo* const a = file->find("a");
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(a->dtype, DType::f32);
  EXPECT_EQ(to_string(*a), "F32[2, 3]");
  ASSERT_EQ(file->bytes(*a).size(), 24U);
  float last = 0;
  std::memcpy(&last, file->bytes(*a).data() + 20, 4);
  EXPECT_EQ(last, 6);
  EXPECT_EQ(file->bytes(*file->find("b")).size(), 8U);
  EXPECT_EQ(file->bytes(*file->find("empty")).size(), 0U);
  EXPECT_EQ(file->bytes(*file->find("scalar")).size(), 4U);
  EXPECT_EQ(file->find("c"), nullptr);
}

TEST_F(Safetensors, AcceptsMetadataPaddingAndNoTensors) {
  EXPECT_EQ(message(R"({"__metadata__":{"format":"pt"}}   )", 0), "accepted");
  EXPECT_EQ(message("{}", 0), "accepted");
}

TEST_F(Safetensors, KeepsTypesItDoesNotComputeWith) {
  const Result<SafetensorsFile> file =
      open(SafetensorsWriter().add_raw("ids", "I64", {2}, std::string(16, '\1')).bytes());
  ASSERT_TRUE(file) << file.status().message();
  EXPECT_FALSE(file->find("ids")->dtype);
}

TEST_F(Safetensors, RefusesAHeaderLongerThanTheFile) {
  std::string file = sound_file();
  file[1] = '\x7f';
  EXPECT_THAT(open(file).status().message(), HasSubstr("longer than the file"));
}

TEST_F(Safetensors, RefusesAHeaderBeyondTheLimit) {
  std::string file = sound_file();
  file[7] = '\xff';
  EXPECT_THAT(open(file).status().message(), HasSubstr("more than the 16 MiB allowed"));
  file = sound_file();
  file[3] = '\x7f';
  EXPECT_THAT(open(file).status().message(), HasSubstr("more than the 16 MiB allowed"));
}

TEST_F(Safetensors, RefusesMoreTensorsThanAnyModelHas) {
  std::string header = "{";
  for (int i = 0; i <= 100'000; ++i) {
    header += fmt::format(R"({}"{}":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
                          i == 0 ? "" : ",", i);
  }
  EXPECT_THAT(message(header + "}", 0), HasSubstr("more than 100000 tensors"));
}

TEST_F(Safetensors, RefusesHeadersThatAreNotTheFormats) {
  for (const std::string& header :
       {std::string(""),
        std::string("{"),
        std::string("[]"),
        std::string("null"),
        std::string("1"),
        std::string("{} {}"),
        std::string("{}\0", 3),
        std::string("{\"\xff\":1}"),
        std::string(R"({"a":1})"),
        std::string(R"({"a":[]})"),
        std::string(R"({"a":{}})"),
        std::string(R"({"__metadata__":1})"),
        std::string(R"({"__metadata__":{"a":1}})"),
        std::string(R"({"__metadata__":{"a":{}}})"),
        std::string(R"({"__metadata__":{},"__metadata__":{}})"),
        std::string(R"({"a":{"dtype":"F32","shape":[0]}})"),
        std::string(R"({"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0],"more":1}})"),
        std::string(R"({"a":{"dtype":"F32","dtype":"F32","shape":[0],"data_offsets":[0,0]}})"),
        std::string(R"({"a":{"dtype":"F33","shape":[0],"data_offsets":[0,0]}})"),
        std::string(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,0]}})"),
        std::string(R"({"a":{"dtype":"F32","shape":[0.5],"data_offsets":[0,0]}})"),
        std::string(R"({"a":{"dtype":"F32","shape":[[0]],"data_offsets":[0,0]}})"),
        std::string(R"({"a":{"dtype":"F32","shape":[0],"data_offsets":[0]}})"),
        std::string(R"({"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0,0]}})"),
        std::string(R"({"a":{"dtype":"F32","shape":0,"data_offsets":[0,0]}})"),
        R"({"a":{"dtype":"F32","shape":[)" + std::string(100, '1') + R"(],"data_offsets":[0,0]}})",
        R"({")" + std::string(100'000, 'n') +
            R"(":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}})"}) {
    const std::string why = message(header, 0);
    EXPECT_THAT(why, HasSubstr("model.safetensors")) << header;
    EXPECT_LT(why.size(), 2000U);
  }
}

TEST_F(Safetensors, SurvivesAnyDepthOfNesting) {
  for (const std::string open_text : {"[", "{\"a\":", "{\"__metadata__\":{\"a\":["}) {
    std::string header;
    while (header.size() < 3'000'000) header += open_text;
    EXPECT_THAT(message(header, 0), HasSubstr("model.safetensors"));
  }
}

TEST_F(Safetensors, RefusesATensorThereTwice) {
  EXPECT_THAT(message(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)"
                      R"("a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
                      0),
              HasSubstr("twice"));
}

TEST_F(Safetensors, RefusesShapesWhoseSizeOverflows) {
  for (const char* shape :
       {"4294967296,4294967296", "9223372036854775807,3", "4611686018427387904"}) {
    EXPECT_THAT(
        message(
            fmt::format(R"({{"a":{{"dtype":"F32","shape":[{}],"data_offsets":[0,0]}}}})", shape),
            0),
        HasSubstr("impossible shape"));
  }
}

std::string two_tensors(int begin_a, int end_a, int begin_b, int end_b) {
  return fmt::format(R"({{"a":{{"dtype":"F16","shape":[4],"data_offsets":[{},{}]}},)"
                     R"("b":{{"dtype":"F16","shape":[4],"data_offsets":[{},{}]}}}})",
                     begin_a, end_a, begin_b, end_b);
}

TEST_F(Safetensors, RefusesOffsetsThatDoNotFit) {
  EXPECT_EQ(message(two_tensors(0, 8, 8, 16), 16), "accepted");
  EXPECT_EQ(message(two_tensors(8, 16, 0, 8), 16), "accepted");
  EXPECT_THAT(message(two_tensors(0, 8, 4, 12), 12), HasSubstr("'b' overlaps"));
  EXPECT_THAT(message(two_tensors(0, 8, 0, 8), 8), HasSubstr("'b' overlaps"));
  EXPECT_THAT(message(two_tensors(0, 8, 10, 18), 18),
              HasSubstr("hole of 2 bytes before tensor 'b'"));
  EXPECT_THAT(message(two_tensors(2, 10, 10, 18), 18),
              HasSubstr("hole of 2 bytes before tensor 'a'"));
  EXPECT_THAT(message(two_tensors(0, 8, 8, 16), 17), HasSubstr("1 bytes after the last tensor"));
  EXPECT_THAT(message(two_tensors(0, 8, 8, 16), 15),
              HasSubstr("tensor 'b' claims bytes 8 to 16 of 15"));
  EXPECT_THAT(message(two_tensors(0, 8, 16, 8), 16), HasSubstr("tensor 'b' claims bytes 16 to 8"));
  EXPECT_THAT(message(two_tensors(0, 7, 7, 15), 15), HasSubstr("has 7 bytes, not 8"));
}

TEST_F(Safetensors, RefusesAFileCutOffAtAnyByte) {
  const std::string file = sound_file();
  for (std::size_t size = 0; size < file.size(); ++size) {
    EXPECT_FALSE(open(file.substr(0, size))) << size;
  }
}

// Checks that, whatever the header says, every tensor lies within the file and fits its shape.
void expect_sound(const SafetensorsFile& file) {
  for (const auto& [name, info] : file.header().tensors()) {
    EXPECT_LE(info.begin, info.end);
    EXPECT_LE(info.end, file.mapping().bytes().size());
    if (!info.dtype) continue;
    std::uint64_t bytes = size_of(*info.dtype);
    for (const std::int64_t size : info.shape) bytes *= static_cast<std::uint64_t>(size);
    EXPECT_EQ(bytes, info.end - info.begin);
  }
}

TEST_F(Safetensors, SurvivesEveryFlippedBitOfTheHeader) {
  const std::string file = sound_file();
  const std::size_t header_end = file.size() - 36;
  std::size_t refused = 0;
  for (std::size_t byte = 0; byte < header_end; ++byte) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      std::string flipped = file;
      flipped[byte] = static_cast<char>(flipped[byte] ^ (1 << bit));
      const Result<SafetensorsFile> result = open(flipped);
      if (result) expect_sound(*result);
      refused += result ? 0 : 1;
    }
  }
  EXPECT_GT(refused, header_end);  // only changed names may remain unnoticed
}

TEST_F(Safetensors, SurvivesRandomDamage) {
  const std::uint64_t seed = test_seed();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937 random(seed);
  const std::string sound = sound_file();
  const std::string alphabet = "{}[]\",:0123456789-eF \\\0\xff";
  for (int round = 0; round < 2000; ++round) {
    std::string file = sound;
    const std::size_t edits = 1 + random() % 4;
    for (std::size_t i = 0; i < edits; ++i) {
      file[random() % (file.size() - 36)] = alphabet[random() % alphabet.size()];
    }
    const Result<SafetensorsFile> result = open(file);
    if (result) expect_sound(*result);
  }
}

TEST_F(Safetensors, RefusesWhatIsNoRegularFile) {
  EXPECT_EQ(SafetensorsFile::open(dir_.path() / "none").status().code(), StatusCode::not_found);
  EXPECT_THAT(SafetensorsFile::open(dir_.path()).status().message(),
              HasSubstr("not a regular file"));
  EXPECT_THAT(SafetensorsFile::open("/dev/zero").status().message(),
              HasSubstr("not a regular file"));
}

}  // namespace
}  // namespace tandem
