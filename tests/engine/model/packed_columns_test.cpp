#include "engine/model/weights/packed_columns.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "gpu/host/host_device.h"
#include "tests/gpu/ops/test_weight.h"
#include "tests/gpu/reference/packed_twin.h"
#include "tests/support/packed_memory.h"
#include "tests/support/test_seed.h"

namespace tandem {
namespace {

constexpr std::int64_t kRows = 5;

class PackedColumns : public ::testing::Test {
 protected:
  // Returns the rows that copy_columns() makes of the weight's.
  static std::vector<std::vector<float>> cut(const Weight& weight, const SpreadRuns& runs,
                                             std::int64_t cols) {
    const test::PackedMemory memory(weight.form, kRows, cols);
    Weight part = memory.weight();
    part.table = weight.table;
    copy_columns(weight.form, runs, kRows, weight.packed, weight.packed_cols, part.packed, cols);
    std::vector<std::vector<float>> rows;
    for (std::int64_t row = 0; row < kRows; ++row) rows.push_back(reference::row_of(part, row));
    return rows;
  }
  static std::vector<std::vector<float>> expected(const Weight& weight, const SpreadRuns& runs,
                                                  std::int64_t cols) {
    std::vector<std::vector<float>> rows;
    for (std::int64_t row = 0; row < kRows; ++row) {
      const std::vector<float> all = reference::row_of(weight, row);
      std::vector<float>& out = rows.emplace_back(static_cast<std::size_t>(cols));
      for (const SpreadRun& run : runs) {
        for (std::int64_t i = 0; i < run.count; ++i) {
          out[static_cast<std::size_t>(run.to + i)] = all[static_cast<std::size_t>(run.from + i)];
        }
      }
    }
    return rows;
  }

  std::unique_ptr<Device> device_ = make_host_device({}).value();
  std::unique_ptr<Stream> stream_ = device_->create_stream("test").value();
  std::mt19937_64 random_{test_seed()};
};

TEST_F(PackedColumns, OfEveryFormatAreThoseOfTheWholeMatrix) {
  for (const NamedForm& format : served_forms()) {
    SCOPED_TRACE(format.name);
    const TestWeight weight(*device_, *stream_, random_, format.form, kRows, 1024);
    for (const SpreadRuns& runs : {SpreadRuns{{0, 0, 512}}, SpreadRuns{{512, 0, 512}},
                                   SpreadRuns{{512, 0, 256}, {0, 256, 256}}}) {
      ASSERT_TRUE(can_cut(weight.host().form, 1024, runs, 512));
      EXPECT_EQ(cut(weight.host(), runs, 512), expected(weight.host(), runs, 512));
    }
  }
}

TEST_F(PackedColumns, AreFilledUpWithZerosWhereAGroupIsZeroByItsBytes) {
  for (const NamedForm& format : served_forms()) {
    SCOPED_TRACE(format.name);
    const TestWeight weight(*device_, *stream_, random_, format.form, kRows, 1024);
    const SpreadRuns runs = {{512, 0, 512}};
    const bool may = has_zero_rows(weight.host().form) && weight.host().form.groups(1024) > 1;
    ASSERT_EQ(can_cut(weight.host().form, 1024, runs, 768), may);
    if (!may) continue;
    EXPECT_EQ(cut(weight.host(), runs, 768), expected(weight.host(), runs, 768));
  }
}

TEST_F(PackedColumns, AreNotCutWithinAGroup) {
  for (const NamedForm& format : served_forms()) {
    SCOPED_TRACE(format.name);
    const TestWeight weight(*device_, *stream_, random_, format.form, kRows, 1024);
    const bool one_group = weight.host().form.groups(1024) == 1;
    // A byte of a plane has the bits of up to eight codes.
    const bool has_bytes = weight.host().form.bits == 8;
    EXPECT_EQ(can_cut(weight.host().form, 1024, {{4, 0, 512}}, 512), one_group && has_bytes);
    EXPECT_EQ(can_cut(weight.host().form, 1024, {{0, 0, 504}}, 504), one_group);
  }
}

}  // namespace
}  // namespace tandem
