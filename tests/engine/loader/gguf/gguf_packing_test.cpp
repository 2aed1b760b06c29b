#include "engine/loader/gguf/gguf_packing.h"

#include <gtest/gtest.h>

#include <vector>

#include "engine/loader/safetensors/safetensors.h"
#include "tests/gpu/reference/packed_twin.h"
#include "tests/support/packed_memory.h"

namespace tandem {
namespace {

// Made by data/gguf/make.py.
TEST(GgufPacking, KeepsTheFloatsOfEveryTypeInAboutAsManyBytes) {
  const auto file = SafetensorsFile::open("data/gguf/values.safetensors");
  ASSERT_TRUE(file.ok()) << file.status().message();
  int types = 0;
  for (const std::uint32_t id : {2, 3, 6, 7, 8, 12, 13, 14}) {
    const GgufType& type = *find_gguf_type(id);
    SCOPED_TRACE(type.name);
    const std::optional<WeightForm> form = gguf_form(type);
    ASSERT_TRUE(form.has_value());
    const auto packed = file->bytes(*file->find(std::string(type.name) + ".packed"));
    const std::size_t blocks = packed.size() / type.bytes;
    const std::size_t cols = blocks * type.elements;
    std::vector<float> expected(cols);
    type.to_float(packed.data(), blocks, expected.data());

    const test::PackedMemory memory(*form, 1, static_cast<std::int64_t>(cols));
    EXPECT_LE(static_cast<double>(memory.bytes()), 1.05 * static_cast<double>(packed.size()));
    pack_gguf_row(type, packed.data(), blocks, memory.weight().packed);
    const std::vector<float> got = reference::row_of(memory.weight(), 0);
    for (std::size_t i = 0; i < cols; ++i) ASSERT_EQ(got[i], expected[i]) << i;
    ++types;
  }
  EXPECT_EQ(types, 8);
}

TEST(GgufPacking, LeavesTypesOfSingleElementsAlone) {
  for (const std::uint32_t id : {0, 1, 30}) EXPECT_FALSE(gguf_form(*find_gguf_type(id)));
}

}  // namespace
}  // namespace tandem
