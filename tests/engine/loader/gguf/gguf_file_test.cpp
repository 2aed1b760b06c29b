#include "engine/loader/gguf/gguf_file.h"

#include <gmock/gmock.h>

#include <limits>
#include <numeric>

#include "engine/loader/gguf/gguf_model.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/temp_dir.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using testing::GgufWriter;
using ::testing::HasSubstr;
using testing::TempDir;

constexpr std::uint32_t kF32 = 0, kQ8_0 = 8, kQ2_K = 10;
constexpr auto kHuge = std::numeric_limits<std::uint64_t>::max();

std::string why(const std::string& bytes) {
  const TempDir dir;
  dir.write("a.gguf", bytes);
  return GgufFile::open(dir.path() / "a.gguf").status().message();
}
std::string why(const GgufWriter& writer) {
  return why(writer.bytes());
}

TEST(GgufFile, HasTheMetadataAndTheTensors) {
  const TempDir dir;
  GgufWriter writer;
  writer.add("general.architecture", "llama").add("count", std::uint32_t{7}).add("eps", 1e-5F);
  writer.add("yes", true).add("words", std::vector<std::string>{"a", "", "bc"});
  writer.add("numbers", std::vector<std::int32_t>{-1, 2});
  writer.add_tensor("one", {2, 3}, std::vector<float>{1, 2, 3, 4, 5, 6});
  writer.add_tensor("two", {1, 32}, kQ8_0, std::string(34, 'x'));
  for (const std::uint32_t version : {2U, 3U}) {
    dir.write("a.gguf", writer.bytes(version));
    const auto model = GgufModel::open(dir.path() / "a.gguf");
    ASSERT_TRUE(model.ok()) << model.status().message();
    EXPECT_EQ(model->architecture().value(), "llama");
    EXPECT_EQ(model->integer("count").value(), 7);
    EXPECT_EQ(model->number("eps").value(), 1e-5);  // the shortest decimal, not the float's value
    EXPECT_EQ(model->boolean("yes").value(), true);
    EXPECT_EQ(model->integer("absent").value(), std::nullopt);
    EXPECT_THAT(model->texts("words").value(), ElementsAre("a", "", "bc"));
    EXPECT_EQ(model->find("numbers")->integer(0), -1);
    EXPECT_THAT(model->integer("eps").status().message(),
                HasSubstr("'eps' must be a whole number"));
    EXPECT_THAT(model->integer("numbers").status().message(), HasSubstr("'numbers'"));
    EXPECT_THAT(model->texts("count").status().message(), HasSubstr("'count' must be a list"));
    ASSERT_NE(model->tensor("two"), nullptr);
    EXPECT_EQ(to_string(*model->tensor("one")), "F32[2, 3]");
    EXPECT_EQ(to_string(*model->tensor("two")), "Q8_0[1, 32]");
    const auto bytes = model->files()[0]->bytes(*model->tensor("two"));
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()),
              std::string(34, 'x'));
  }
}

// The header is read in pieces, the first of which are much shorter.
TEST(GgufFile, HasTheValuesOfALongHeader) {
  const TempDir dir;
  std::vector<std::int32_t> numbers(100'000);
  std::iota(numbers.begin(), numbers.end(), 0);
  GgufWriter writer;
  writer.add("first", "text").add("numbers", numbers);
  writer.add("words", std::vector<std::string>(20'000, "word")).add("last", true);
  dir.write("a.gguf", writer.add_tensor("one", {8}, std::vector<float>(8)).bytes());
  const Result<GgufFile> file = GgufFile::open(dir.path() / "a.gguf");
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_GT(file->header_bytes(), 600'000U);
  EXPECT_EQ(file->metadata().at("first").text(), "text");
  EXPECT_EQ(file->metadata().at("numbers").integer(0), 0);
  EXPECT_EQ(file->metadata().at("numbers").integer(99'999), 99'999);
  EXPECT_EQ(file->metadata().at("words").texts()->back(), "word");
  EXPECT_EQ(file->metadata().at("last").boolean(), true);
  EXPECT_EQ(file->bytes(file->tensors().at("one")).size(), 32U);
}

TEST(GgufFile, IsRefusedWhereverItIsCut) {
  GgufWriter writer;
  writer.add("general.architecture", "llama").add("words", std::vector<std::string>{"a", "bc"});
  writer.add_tensor("one", {2, 4}, std::vector<float>(8));
  const std::string whole = writer.bytes();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_NE(why(whole.substr(0, size)), "") << size;
  }
  EXPECT_EQ(why(whole), "");
}

TEST(GgufFile, IsRefusedWithItsName) {
  EXPECT_THAT(why("GGUX"), HasSubstr("a.gguf: is no GGUF file"));
  EXPECT_THAT(why(GgufWriter().bytes(1)), HasSubstr("has version 1"));
  EXPECT_THAT(why("GGUF" + GgufWriter::raw<std::uint32_t>(3) + GgufWriter::raw(kHuge) +
                  GgufWriter::raw(kHuge)),
              HasSubstr("tensors and"));
}

TEST(GgufFile, RefusesMetadataThatIsBroken) {
  using W = GgufWriter;
  EXPECT_THAT(why(W().add("a", true).add("a", true)), HasSubstr("'a' is there twice"));
  EXPECT_THAT(why(W().add("", true)), HasSubstr("has 0 bytes"));
  EXPECT_THAT(why(W().add(std::string(1025, 'k'), true)), HasSubstr("has 1025 bytes"));
  EXPECT_THAT(why(W().add_raw("a", 13, "")), HasSubstr("'a' has the unknown kind 13"));
  EXPECT_THAT(why(W().add_raw("a", W::list, W::raw<std::uint32_t>(W::list) + W::raw(kHuge))),
              HasSubstr("'a' is a list of lists"));
  EXPECT_THAT(why(W().add_raw("a", W::text, W::raw(kHuge))), HasSubstr("'a' reaches beyond"));
  for (const std::uint64_t count : {kHuge, kHuge / 8 + 2, std::uint64_t{1} << 20}) {
    for (const std::uint32_t kind : {W::u32, W::u64, W::text}) {
      EXPECT_THAT(why(W().add_raw("a", W::list, W::raw(kind) + W::raw(count))),
                  HasSubstr("'a' reaches beyond"));
    }
  }
  EXPECT_THAT(why(W().add("general.alignment", 24U)), HasSubstr("must be a power of two"));
  EXPECT_THAT(why(W().add("general.alignment", "x")), HasSubstr("must be a power of two"));
}

TEST(GgufFile, RefusesTensorsThatAreBroken) {
  const auto tensor = [](const std::vector<std::int64_t>& shape, std::uint32_t type,
                         std::uint64_t offset) {
    GgufWriter writer;
    writer.add_tensor("whole", {8}, std::vector<float>(8));
    return why(writer.add_tensor_at("t", shape, type, offset));
  };
  EXPECT_THAT(tensor({8}, kF32, 32), HasSubstr("tensor 't', F32[8], reaches beyond the file"));
  EXPECT_THAT(tensor({8}, kF32, kHuge - 31), HasSubstr("reaches beyond the file"));
  EXPECT_THAT(tensor({8}, kF32, 4), HasSubstr("not aligned to 32"));
  EXPECT_THAT(tensor({4}, kF32, 0), HasSubstr("overlaps"));
  EXPECT_THAT(tensor({}, kF32, 32), HasSubstr("0 dimensions"));
  EXPECT_THAT(tensor({1, 1, 1, 1, 1}, kF32, 32), HasSubstr("5 dimensions"));
  EXPECT_THAT(tensor({2, 0}, kF32, 32), HasSubstr("impossible shape"));
  EXPECT_THAT(tensor({-1, 1}, kF32, 32), HasSubstr("impossible shape"));
  EXPECT_THAT(tensor({INT64_MAX, 4}, kF32, 32), HasSubstr("impossible shape"));
  EXPECT_THAT(tensor({INT64_MAX}, kF32, 32), HasSubstr("impossible shape"));
  EXPECT_THAT(tensor({2, 31}, kQ8_0, 32), HasSubstr("no whole blocks of 32"));
  EXPECT_THAT(tensor({256}, kQ2_K, 32), HasSubstr("has type Q2_K, which is not supported; take"));
  EXPECT_THAT(tensor({256}, 99, 32), HasSubstr("has type 99, which is not supported; take"));
  GgufWriter twice;
  twice.add_tensor("t", {8}, std::vector<float>(8)).add_tensor("t", {8}, std::vector<float>(8));
  EXPECT_THAT(why(twice), HasSubstr("tensor 't' is there twice"));
}

GgufWriter part(std::uint32_t number, std::uint32_t count, const std::string& tensor) {
  GgufWriter writer;
  writer.add("split.no", number).add("split.count", count).add("split.tensors.count", 2U);
  return std::move(writer.add_tensor(tensor, {8}, std::vector<float>(8, float(number))));
}

TEST(GgufModel, IsReadFromAllOfItsParts) {
  const TempDir dir;
  dir.write("m-00001-of-00002.gguf", part(0, 2, "a").bytes());
  const auto open = [&](const char* name) { return GgufModel::open(dir.path() / name); };
  EXPECT_EQ(open("m-00001-of-00002.gguf").status().code(), StatusCode::not_found);
  dir.write("m-00002-of-00002.gguf", part(1, 2, "b").bytes());
  const auto model = open("m-00001-of-00002.gguf");
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ(model->tensors().size(), 2U);
  EXPECT_EQ(model->tensors().find("b")->second.file->path(),
            (dir.path() / "m-00002-of-00002.gguf").string());

  EXPECT_THAT(open("m-00002-of-00002.gguf").status().message(),
              HasSubstr("is part 2 of 2; name the first one"));
  for (const std::uint64_t number : {INT64_MAX, std::int64_t{-1}, std::int64_t{2}}) {
    GgufWriter writer;
    writer.add_raw("split.no", 11, GgufWriter::raw(number)).add("split.count", 2U);
    dir.write("other.gguf", writer.bytes());
    EXPECT_THAT(open("other.gguf").status().message(), HasSubstr("'split.no' is"));
  }
  dir.write("other.gguf", part(0, 2, "a").bytes());
  EXPECT_THAT(open("other.gguf").status().message(), HasSubstr("should end in '-00001-of-00002"));
  dir.write("m-00002-of-00002.gguf", part(1, 2, "a").bytes());
  EXPECT_THAT(open("m-00001-of-00002.gguf").status().message(), HasSubstr("is in another part"));
  dir.write("m-00002-of-00002.gguf", part(0, 2, "b").bytes());
  EXPECT_THAT(open("m-00001-of-00002.gguf").status().message(), HasSubstr("'split.no' is not 1"));
}

}  // namespace
}  // namespace tandem
