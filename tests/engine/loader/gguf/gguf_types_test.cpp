#include "engine/loader/gguf/gguf_types.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "engine/loader/safetensors/safetensors.h"

namespace tandem {
namespace {

std::vector<float> expected_of(const SafetensorsFile& file, const std::string& name) {
  const auto bytes = file.bytes(*file.find(name + ".expected"));
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// Made by data/gguf/make.py.
TEST(GgufTypes, ConvertToTheFloatsOfThePackageGguf) {
  const auto file = SafetensorsFile::open("data/gguf/values.safetensors");
  ASSERT_TRUE(file.ok()) << file.status().message();
  std::size_t compared = 0;
  for (const std::uint32_t id : {0, 1, 2, 3, 6, 7, 8, 12, 13, 14, 30}) {
    const GgufType* const type = find_gguf_type(id);
    ASSERT_NE(type, nullptr) << id;
    const std::string name(type->name);
    SCOPED_TRACE(name);
    const auto packed = file->bytes(*file->find(name + ".packed"));
    const std::vector<float> expected = expected_of(*file, name);
    ASSERT_EQ(packed.size() * type->elements, expected.size() * type->bytes);
    std::vector<float> got(expected.size());
    type->to_float(packed.data(), packed.size() / type->bytes, got.data());
    for (std::size_t i = 0; i < got.size(); ++i, ++compared) {
      EXPECT_EQ(std::bit_cast<std::uint32_t>(got[i]), std::bit_cast<std::uint32_t>(expected[i]))
          << i << ": " << got[i] << " and " << expected[i];
    }
  }
  EXPECT_GT(compared, 2000U);
}

TEST(GgufTypes, AreKnownByTheirNumbers) {
  EXPECT_EQ(find_gguf_type(12)->name, "Q4_K");
  EXPECT_EQ(find_gguf_type(1)->dtype, DType::f16);
  for (const std::uint32_t id : {4U, 5U, 9U, 10U, 11U, 15U, 31U, 0xffffffffU}) {
    EXPECT_EQ(find_gguf_type(id), nullptr) << id;
  }
}

}  // namespace
}  // namespace tandem
