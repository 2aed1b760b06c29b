#include "engine/loader/gguf/gguf_packing.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "engine/loader/quantised/packed_rows.h"
#include "engine/loader/safetensors/safetensors.h"
#include "tests/gpu/reference/packed_twin.h"

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

    const PackedSizes sizes = packed_row_bytes(*form, static_cast<std::int64_t>(cols));
    std::array<std::vector<std::byte>, kPackedArrays> memory;
    PackedPointers pointers = {};
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < kPackedArrays; ++i) {
      memory[i].resize(static_cast<std::size_t>(sizes[i]));
      if (sizes[i] > 0) pointers[i] = memory[i].data();
      bytes += memory[i].size();
    }
    EXPECT_LE(static_cast<double>(bytes), 1.05 * static_cast<double>(packed.size()));
    Weight weight;
    weight.form = *form;
    weight.packed = arrays_at(pointers);
    weight.packed_rows = 1;
    weight.packed_cols = static_cast<std::int64_t>(cols);
    pack_gguf_row(type, packed.data(), blocks, weight.packed);
    const std::vector<float> got = reference::row_of(weight, 0);
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
