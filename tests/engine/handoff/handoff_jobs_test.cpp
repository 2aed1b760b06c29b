#include "engine/handoff/handoff_jobs.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/test_seed.h"
#include "tests/support/uneven_model.h"

namespace tandem::test {
namespace {

TEST(HandoffJobs, PlaceTheModulesOfASiteAsTheModelsTableSays) {
  std::mt19937 random(static_cast<std::mt19937::result_type>(test_seed()));
  const ModelSpec spec = uneven_model(8, random);
  const Adapter adapter = make_dummy_adapter(
      spec, DType::bf16, 5, {"in_proj", "q_proj", "v_proj", "up_proj", "down_proj"}, 1);
  const MailboxShape shape = mailbox_shape(spec, DType::bf16, 5, 16, 2);
  GroupOfStep of;
  of.adapter = &adapter;
  of.arena_offset = 640;
  const ModuleTable& table = spec.modules;
  for (std::int64_t layer = 0; layer < spec.num_layers(); ++layer) {
    for (std::size_t s = 0; s < table.num_sites(); ++s) {
      const auto site = static_cast<Site>(s);
      const GroupJob job = group_job(spec, of, 3, layer, site);
      ASSERT_EQ(job.num_modules, table.num_of(site));
      EXPECT_LE(job.in, shape.max_in);
      EXPECT_LE(job.out, shape.max_out);
      std::uint32_t column = 0;
      std::uint32_t ranks = 0;
      for (std::uint32_t m = 0; m < job.num_modules; ++m) {
        const std::size_t row = table.first_of(site) + m;
        const AdapterMatrix& matrix = adapter.layers[static_cast<std::size_t>(layer)][row];
        EXPECT_EQ(job.modules[m].column, column);
        EXPECT_EQ(job.modules[m].out, module_out(spec, layer, row));
        EXPECT_EQ(job.modules[m].a, 640 + matrix.a_offset);
        EXPECT_EQ(job.modules[m].rank, static_cast<std::uint32_t>(matrix.rank));
        if (job.modules[m].out > 0) {
          EXPECT_EQ(job.in, module_in(spec, layer, row));
        }
        column += job.modules[m].out;
        ranks += job.modules[m].rank;
      }
      EXPECT_EQ(job.out, column);
      EXPECT_EQ(job.rank_columns, ranks);
      EXPECT_EQ(adapts(adapter, table, layer, site), ranks > 0);
    }
  }
}

}  // namespace
}  // namespace tandem::test
