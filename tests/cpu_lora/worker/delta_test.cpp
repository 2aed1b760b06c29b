#include "cpu_lora/worker/delta.h"

#include <gtest/gtest.h>

#include <bit>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "base/onednn/matmul.h"
#include "cpu_lora/worker/amx_product.h"
#include "tests/cpu_lora/worker/delta_case.h"
#include "tests/support/sanitized.h"

namespace tandem {
namespace {

constexpr std::byte kPoison{0xff};  // a NaN in every dtype

// The reference loops in double are slow under a sanitizer.
const bool kSanitized = sanitized();

// Runs the shares of all workers one after another, with v and y as in the mailbox.
struct DeltaRun {
  std::vector<float> v;
  std::vector<std::byte> y;
};

DeltaRun run_all(const DeltaCase& it, const GroupJob& job, ProductKind kind, bool xa,
                 std::size_t most_bytes) {
  use_one_thread();
  const std::uint64_t plane = v_plane_of(job) + 5;
  DeltaRun run;
  run.v.assign(plane * 8, std::numeric_limits<float>::quiet_NaN());
  run.y.assign(std::size_t{job.rows} * job.out * size_of(it.dtype()), kPoison);
  const std::vector<std::byte> x = it.x();
  const DeltaPlaces places{x.data(), run.v.data(), static_cast<std::int64_t>(plane), run.y.data()};
  auto delta = WorkerDelta::create(it.dtype(), kind);
  EXPECT_TRUE(delta.ok()) << delta.status().message();
  std::vector<DeltaTask> tasks(static_cast<std::size_t>(std::popcount(job.workers)));
  JobTerms terms{it.dtype(), job.rank_columns * 8};
  for (std::size_t i = 0; i < kMaxWorkerSlots; i += 3) terms.weights[i] = kEvenWeight / 2;
  std::size_t at = 0;
  for (std::uint64_t left = job.workers; left != 0; left &= left - 1, ++at) {
    const int worker_slot = std::countr_zero(left);
    delta->assign(tasks[at], job, worker_slot, terms, it.arena().data(), most_bytes);
    if (at % 2 == 0) delta->pack_some(tasks[at]);
    const Status status = delta->shrink(tasks[at], places);
    EXPECT_TRUE(status.ok()) << status.message();
  }
  for (DeltaTask& task : tasks) {
    if (xa) {
      delta->reduce(task, places);
    } else {
      const Status status = delta->expand(task, places);
      EXPECT_TRUE(status.ok()) << status.message();
    }
  }
  return run;
}

void check_delta(const DeltaSizes& sizes, DType dtype, std::uint64_t workers, JobSplit split,
                 ProductKind kind, unsigned seed, std::size_t most_bytes = 1 << 20) {
  SCOPED_TRACE(fmt::format("rows {} in {} ranks {} workers {:#x} split {} {} kind {} seed {}",
                           sizes.rows, sizes.in, sizes.ranks.front(), workers,
                           static_cast<int>(split), to_string(dtype), static_cast<int>(kind),
                           seed));
  const DeltaCase it(sizes, dtype, seed);
  const GroupJob job = it.job(workers, split);
  EXPECT_EQ(it.check_y(run_all(it, job, kind, false, most_bytes).y.data(), kPoison), "");
  const DeltaRun xa = run_all(it, job, kind, true, most_bytes);
  EXPECT_EQ(it.check_v(xa.v.data()), "");
  for (const std::byte byte : xa.y) ASSERT_EQ(byte, kPoison);
}

constexpr std::uint64_t mask_of(int workers) {
  return (std::uint64_t{1} << workers) - 1;
}

TEST(Delta, AgreesWithPlainLoopsForEveryCountOfWorkersAndSplit) {
  const DeltaSizes sizes{19, 2080, {24, 0, 64}, {96, 64, 160}};
  for (int workers = 1; workers <= 12; workers += kSanitized ? 4 : 1) {
    for (const JobSplit split : {JobSplit::columns, JobSplit::tokens}) {
      check_delta(sizes, DType::bf16, mask_of(workers), split, ProductKind::onednn, 11);
    }
  }
}

TEST(Delta, AgreesWithPlainLoopsForRanksAndRowsOfAnyKind) {
  unsigned seed = 23;
  for (const std::uint32_t rank : {1U, 3U, 8U, 17U, 64U, 100U, 512U, 2048U}) {
    for (const std::uint32_t rows : {1U, 7U, 33U, 200U}) {
      if (rank * rows > (kSanitized ? 2000U : 30000U)) continue;
      const DType dtype = std::vector<DType>{DType::f32, DType::bf16, DType::f16}[seed % 3];
      check_delta({rows, 192 + rank, {rank}, {100}}, dtype, 0x2a, JobSplit::columns,
                  ProductKind::onednn, seed);
      ++seed;
    }
  }
}

TEST(Delta, AddsBiasesToEachRow) {
  unsigned seed = 71;
  for (const JobSplit split : {JobSplit::columns, JobSplit::tokens}) {
    for (const std::uint32_t rank : {1U, 8U, 32U, 45U}) {
      for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
        check_delta({7, 192, {rank, 0, 16}, {100, 30, 64}, true}, dtype, 0x2a, split,
                    ProductKind::onednn, ++seed);
      }
      check_delta({7, 192, {rank}, {100}, true}, DType::bf16, 0x3, split, ProductKind::amx_emulated,
                  ++seed);
    }
  }
}

TEST(Delta, PacksSlabBySlabWhatIsTooMuchToKeep) {
  check_delta({5, 1024, {512, 40}, {2000, 64}}, DType::f32, 0x1, JobSplit::columns,
              ProductKind::onednn, 5, 0);
  check_delta({5, 1024, {512, 40}, {2000, 64}}, DType::bf16, 0x1, JobSplit::columns,
              ProductKind::amx_emulated, 5, 0);
}

TEST(Delta, AgreesOnTilesToo) {
  std::vector<ProductKind> kinds = {ProductKind::amx_emulated};
  if (has_amx()) kinds.push_back(ProductKind::amx);
  for (const ProductKind kind : kinds) {
    unsigned seed = 31;
    for (const std::uint32_t rows : {1U, 16U, 17U, 45U}) {
      for (const std::uint32_t rank : {1U, 16U, 33U}) {
        check_delta({rows, 1040 + rank, {rank, 8}, {80, 40}}, DType::bf16, 0x7, JobSplit::columns,
                    kind, seed++);
      }
    }
    check_delta({70, 2048, {64}, {192}}, DType::bf16, 0x1f, JobSplit::columns, kind, seed);
    check_delta({70, 96, {64}, {192}}, DType::bf16, 0x1f, JobSplit::tokens, kind, seed);
  }
}

TEST(Delta, IsTheSameWithAndWithoutVectorInstructions) {
  const auto plain = make_emulated_amx_product(true);
  const auto fast = make_emulated_amx_product(false);
  const DeltaCase it({40, 77, {45}, {64}}, DType::bf16, 3);
  const GroupJob job = it.job(1, JobSplit::columns);
  const WeightsView w{it.arena().data() + job.modules[0].a, job.in, 45, job.in};
  ASSERT_EQ(plain->packed_bytes(45, 77), fast->packed_bytes(45, 77));
  AlignedBytes memory[2];
  std::vector<bf16> y[2];
  const std::vector<std::byte> x = it.x();
  for (int i = 0; i < 2; ++i) {
    Product& product = i == 0 ? *plain : *fast;
    std::byte* packed = memory[i].get(product.packed_bytes(45, 77));
    for (std::int64_t row = 0; row < 45; row += Product::kPackRows) product.pack(w, row, packed);
    y[i].resize(40 * 45);
    ProductArgs args{.rows = 40,
                     .n = 45,
                     .k = 77,
                     .x = x.data(),
                     .x_dtype = DType::bf16,
                     .x_stride = 77,
                     .packed = packed,
                     .y = y[i].data(),
                     .y_dtype = DType::bf16,
                     .y_stride = 45};
    ASSERT_TRUE(product.run(args).ok());
  }
  const std::size_t bytes = plain->packed_bytes(45, 77);
  EXPECT_EQ(std::memcmp(memory[0].get(bytes), memory[1].get(bytes), bytes), 0);
  EXPECT_EQ(std::memcmp(y[0].data(), y[1].data(), y[0].size() * 2), 0);
  // Checks sums of planes, too.
  std::vector<float> planes(3 * 64);
  for (std::size_t i = 0; i < planes.size(); ++i) planes[i] = static_cast<float>(i) / 7;
  std::vector<bf16> sums[2] = {std::vector<bf16>(64), std::vector<bf16>(64)};
  plain->add_planes(planes.data(), 64, 3, 45, sums[0].data());
  fast->add_planes(planes.data(), 64, 3, 45, sums[1].data());
  EXPECT_EQ(std::memcmp(sums[0].data(), sums[1].data(), 128), 0);
}

TEST(Delta, LeavesNoNumberBeyondARowOfXUsed) {
  // Columns outside a share's part of x may hold infinities, which a product with zero would not
  // cancel.
  const DeltaCase it({16, 40, {16}, {32}}, DType::bf16, 9);
  const GroupJob job = it.job(1, JobSplit::columns);
  const auto product = make_emulated_amx_product(false);
  AlignedBytes memory;
  std::byte* packed = memory.get(product->packed_bytes(16, 40));
  product->pack({it.arena().data() + job.modules[0].a, 40, 16, 40}, 0, packed);
  std::vector<bf16> wide(16 * 64, from_float<bf16>(std::numeric_limits<float>::infinity()));
  const std::vector<std::byte> x = it.x();
  for (int r = 0; r < 16; ++r) std::memcpy(&wide[r * 64], x.data() + r * 80, 80);
  std::vector<float> v(16 * 16);
  ProductArgs args{.rows = 16,
                   .n = 16,
                   .k = 40,
                   .x = wide.data(),
                   .x_dtype = DType::bf16,
                   .x_stride = 64,
                   .packed = packed,
                   .y = v.data(),
                   .y_dtype = DType::f32,
                   .y_stride = 16};
  ASSERT_TRUE(product->run(args).ok());
  EXPECT_EQ(it.check_v(v.data()), "");
}

TEST(Delta, RefusesJobsThatLeadOutOfTheRegions) {
  const MailboxShape shape{DType::bf16, 4, 32, 128, 256, 64};
  const std::size_t arena = 1 << 20;
  GroupJob good;
  good.workers = 0x3;
  good.rows = 8;
  good.in = 128;
  good.out = 256;
  good.num_modules = 1;
  good.rank_columns = 16;
  good.modules[0] = {.a = 0, .b = 4096, .rank = 16, .b_stride = 16, .out = 256, .column = 0};
  ASSERT_TRUE(check_group_job(good, shape, arena).ok());
  const auto refused = [&](auto change) {
    GroupJob job = good;
    change(job);
    return !check_group_job(job, shape, arena).ok();
  };
  EXPECT_TRUE(refused([](GroupJob& j) { j.group = 64; }));
  EXPECT_TRUE(refused([](GroupJob& j) { j.workers = 0; }));
  EXPECT_TRUE(refused([](GroupJob& j) { j.workers = 0x10; }));
  EXPECT_TRUE(refused([](GroupJob& j) { j.rows = 33; }));
  EXPECT_TRUE(refused([](GroupJob& j) { j.first_row = 25; }));
  EXPECT_TRUE(refused([](GroupJob& j) { j.first_row = ~0U; }));
  EXPECT_TRUE(refused([](GroupJob& j) { j.in = 129; }));
  EXPECT_TRUE(refused([](GroupJob& j) { j.out = 257; }));
  EXPECT_TRUE(refused([](GroupJob& j) { j.num_modules = 4; }));
  EXPECT_TRUE(refused([](GroupJob& j) { j.split = static_cast<JobSplit>(2); }));
  EXPECT_TRUE(refused([](GroupJob& j) { j.rank_columns = 17; }));
  EXPECT_TRUE(refused([](GroupJob& j) { j.present_value = 1, j.present = (1 << 20) - 2; }));
  EXPECT_TRUE(refused([](GroupJob& j) { j.modules[0].rank = j.rank_columns = 65; }));
  EXPECT_TRUE(refused([](GroupJob& j) { j.modules[0].b_stride = 15; }));
  EXPECT_TRUE(refused([](GroupJob& j) { j.modules[0].b_stride = ~0U; }));
  EXPECT_TRUE(refused([](GroupJob& j) { j.modules[0].a = (1 << 20) - 4094; }));
  EXPECT_TRUE(refused([](GroupJob& j) { j.modules[0].a = 1; }));
  EXPECT_TRUE(refused([](GroupJob& j) { j.modules[0].b = ~0ULL - 1; }));
  EXPECT_TRUE(refused([](GroupJob& j) { j.modules[0].column = 1; }));
  EXPECT_TRUE(refused([](GroupJob& j) { j.modules[0].out = ~0U; }));
}

}  // namespace
}  // namespace tandem
