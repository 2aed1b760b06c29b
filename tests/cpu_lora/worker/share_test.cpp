#include "cpu_lora/worker/share.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <random>
#include <set>
#include <tuple>
#include <vector>

namespace tandem {
namespace {

GroupJob make_job(std::uint32_t rows, std::uint32_t in, const std::vector<std::uint32_t>& ranks,
                  const std::vector<std::uint32_t>& outs, std::uint64_t workers, JobSplit split) {
  GroupJob job;
  job.workers = workers;
  job.rows = rows;
  job.in = in;
  job.split = split;
  job.num_modules = static_cast<std::uint32_t>(ranks.size());
  for (std::size_t m = 0; m < ranks.size(); ++m) {
    job.modules[m].rank = ranks[m];
    job.modules[m].out = outs[m];
    job.modules[m].column = job.out;
    job.out += outs[m];
    job.rank_columns += ranks[m];
  }
  return job;
}

std::vector<int> worker_slots_of(std::uint64_t mask) {
  std::vector<int> worker_slots;
  for (; mask != 0; mask &= mask - 1) worker_slots.push_back(std::countr_zero(mask));
  return worker_slots;
}

// Checks that every product of v, every element of y and every sum belongs to exactly one worker,
// and that a worker's peers are those that write what it reads.
void check_shares(const GroupJob& job, const JobTerms& terms) {
  const DType dtype = terms.dtype;
  std::vector<Share> shares;
  const std::vector<int> worker_slots = worker_slots_of(job.workers);
  for (const int worker_slot : worker_slots) shares.push_back(share_of(job, worker_slot, terms));

  std::vector<std::vector<int>> v(job.num_modules);  // [rows, rank, in]: number of multiplications
  std::vector<std::vector<int>> y(job.num_modules);  // [rows, out]: number of writes
  std::vector<int> sums(std::size_t{job.rows} * job.rank_columns);
  for (std::uint32_t m = 0; m < job.num_modules; ++m) {
    v[m].resize(std::size_t{job.rows} * job.modules[m].rank * job.in);
    y[m].resize(std::size_t{job.rows} * job.modules[m].out);
  }
  const bool by_tokens = job.split == JobSplit::tokens;
  std::set<std::tuple<std::size_t, std::uint32_t, std::uint32_t, std::uint32_t>> planes;
  std::uint64_t parts = 0;
  for (std::size_t w = 0; w < shares.size(); ++w) {
    const Share& share = shares[w];
    if (!by_tokens) {
      EXPECT_TRUE(std::ranges::equal(share.stripes_of_all(), shares.front().stripes_of_all()));
    }
    parts += share.part;
    ASSERT_LE(share.num_shrinks, share.num_stripes);
    EXPECT_LE((share.most_planes - 1) * v_plane_of(job) + sums.size(),
              std::uint64_t{job.rows} * terms.v_row);
    for (std::uint32_t i = 0; i < share.num_shrinks; ++i) {
      const ShrinkPart& part = share.shrinks[i];
      const auto* const stripe =
          std::find_if(share.stripes.begin(), share.stripes.begin() + share.num_stripes,
                       [&](const Stripe& each) {
                         return each.module == part.module && each.first_rank == part.first_rank;
                       });
      ASSERT_LT(stripe - share.stripes.begin(), share.num_stripes);
      EXPECT_EQ(stripe->num_ranks, part.num_ranks);
      EXPECT_LT(part.plane, stripe->num_planes);
      EXPECT_TRUE(planes.emplace(w * by_tokens, part.module, part.first_rank, part.plane).second);
      EXPECT_EQ(part.first_in % 32, 0U);
      EXPECT_EQ(part.first_rank % 16, 0U);
      for (std::uint32_t t = share.first_row; t < share.first_row + share.num_rows; ++t) {
        for (std::uint32_t r = part.first_rank; r < part.first_rank + part.num_ranks; ++r) {
          for (std::uint32_t k = part.first_in; k < part.first_in + part.num_in; ++k) {
            ++v[part.module].at((std::size_t{t} * job.modules[part.module].rank + r) * job.in + k);
          }
        }
      }
    }
    std::uint32_t read_modules = 0;
    for (std::uint32_t i = 0; i < share.num_expands; ++i) {
      const ExpandPart& part = share.expands[i];
      read_modules |= 1U << part.module;
      EXPECT_EQ(part.first_column * size_of(dtype) % 64, 0U);
      for (std::uint32_t t = share.first_row; t < share.first_row + share.num_rows; ++t) {
        for (std::uint32_t c = part.first_column; c < part.first_column + part.num_columns; ++c) {
          ++y[part.module].at(std::size_t{t} * job.modules[part.module].out + c);
        }
      }
    }
    for (std::uint64_t i = 0; i < share.num_sums; ++i) ++sums.at(share.first_sum + i);
    if (by_tokens) {
      EXPECT_EQ(share.expand_peers | share.reduce_peers, 0U);
      continue;
    }
    std::uint64_t expand_peers = 0;
    std::uint64_t reduce_peers = 0;
    for (std::size_t other = 0; other < shares.size(); ++other) {
      if (other == w) continue;
      for (std::uint32_t i = 0; i < shares[other].num_shrinks; ++i) {
        const std::uint64_t bit = std::uint64_t{1} << worker_slots[other];
        reduce_peers |= bit;
        if ((read_modules >> shares[other].shrinks[i].module & 1) != 0) expand_peers |= bit;
      }
    }
    EXPECT_EQ(share.expand_peers, expand_peers);
    EXPECT_EQ(share.reduce_peers, reduce_peers);
  }
  for (std::uint32_t m = 0; m < job.num_modules; ++m) {
    const bool adapted = job.modules[m].rank != 0;
    for (const int times : v[m]) ASSERT_EQ(times, 1);
    for (const int times : y[m]) ASSERT_EQ(times, adapted ? 1 : 0);
  }
  if (by_tokens) return;
  for (const int times : sums) ASSERT_EQ(times, 1);
  // Every plane of a stripe is written by some worker.
  std::size_t all = 0;
  for (const Stripe& stripe : shares.front().stripes_of_all()) all += stripe.num_planes;
  EXPECT_EQ(planes.size(), all);
  if (job.rank_columns == 0) return;
  EXPECT_NEAR(static_cast<double>(parts), kWholeJob, 3.0 * static_cast<double>(shares.size()) + 3);
}

constexpr std::uint32_t kWideRow = kLeastVRow;

TEST(Share, CoversEverythingOnceForEveryCountOfWorkers) {
  for (int workers = 1; workers <= 16; ++workers) {
    SCOPED_TRACE(workers);
    const std::uint64_t mask = (std::uint64_t{1} << workers) - 1;
    for (const JobSplit split : {JobSplit::columns, JobSplit::tokens}) {
      check_shares(make_job(5, 2080, {64, 8, 64}, {512, 128, 128}, mask, split),
                   {DType::bf16, kWideRow});
      check_shares(make_job(3, 1040, {33}, {200}, mask << 7, split), {DType::f32, 6 * 33});
    }
  }
}

TEST(Share, CoversEverythingOnceForShapesAndWeightsOfAnyKind) {
  const unsigned seed = 7;
  std::mt19937_64 random(seed);
  const auto up_to = [&](std::uint32_t most) {
    return static_cast<std::uint32_t>(random() % most) + 1;
  };
  for (int i = 0; i < 90; ++i) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", case " + std::to_string(i));
    std::vector<std::uint32_t> ranks;
    std::vector<std::uint32_t> outs;
    for (std::uint32_t m = up_to(3); m > 0; --m) {
      ranks.push_back(random() % 4 == 0 ? 0 : up_to(70));
      outs.push_back(up_to(300));
    }
    JobTerms terms;
    terms.dtype = random() % 2 == 0 ? DType::bf16 : DType::f32;
    terms.v_row = random() % 2 == 0 ? kWideRow : 6 * *std::ranges::max_element(ranks);
    if (random() % 3 != 0) {
      for (std::uint8_t& weight : terms.weights) weight = static_cast<std::uint8_t>(random());
    }
    const std::uint64_t mask = i % 5 == 0 ? random() : random() & random() & random();
    if (mask == 0) continue;
    check_shares(make_job(up_to(7) - 1, up_to(2500), ranks, outs, mask,
                          random() % 2 == 0 ? JobSplit::columns : JobSplit::tokens),
                 terms);
  }
}

// Makes a job for a layer's q, k and v with twelve workers.
GroupJob qkv_job(std::uint32_t rank) {
  return make_job(64, 4096, {rank, rank, rank}, {4096, 4096, 4096}, 0xfff, JobSplit::columns);
}

TEST(Share, GivesTwelveWorkersEqualPartsOfQKV) {
  const GroupJob job = qkv_job(64);
  for (int worker_slot = 0; worker_slot < 12; ++worker_slot) {
    const Share share = share_of(job, worker_slot, {DType::bf16, kWideRow});
    ASSERT_EQ(share.num_shrinks, 1U);
    const auto module = static_cast<std::uint32_t>(worker_slot) / 4;
    const auto part = static_cast<std::uint32_t>(worker_slot) % 4;
    const std::uint32_t plane = part % 2;
    EXPECT_EQ(share.shrinks[0], (ShrinkPart{module, part / 2 * 32, 32, plane * 2048, 2048, plane}));
    ASSERT_EQ(share.num_expands, 1U);
    EXPECT_EQ(share.expands[0], (ExpandPart{module, part * 1024, 1024}));
    EXPECT_EQ(share.expand_peers, (0xfULL << (module * 4)) & ~(1ULL << worker_slot));
    EXPECT_NEAR(share.part, kWholeJob / 12.0, 2);
  }
}

TEST(Share, LeavesNoneOfTwelveWorkersIdleWhereRanksAreSmall) {
  const GroupJob job = qkv_job(16);
  for (int worker_slot = 0; worker_slot < 12; ++worker_slot) {
    const Share share = share_of(job, worker_slot, {DType::bf16, kWideRow});
    ASSERT_EQ(share.num_shrinks, 1U);
    EXPECT_EQ(share.shrinks[0].num_ranks, 16U);
    EXPECT_EQ(share.shrinks[0].num_in, 1024U);
    EXPECT_EQ(share.most_planes, 4U);
  }
}

TEST(Share, GivesASlowWorkerLessOfBothProductsAndAllOthersAsMuchMore) {
  const GroupJob job = qkv_job(64);
  JobTerms terms{DType::bf16, kWideRow};
  terms.weights[3] = kEvenWeight / 2;
  for (int worker_slot = 0; worker_slot < 12; ++worker_slot) {
    const Share share = share_of(job, worker_slot, terms);
    std::uint64_t shrink = 0, expand = 0;
    for (std::uint32_t i = 0; i < share.num_shrinks; ++i) {
      shrink += std::uint64_t{share.shrinks[i].num_ranks} * share.shrinks[i].num_in;
    }
    for (std::uint32_t i = 0; i < share.num_expands; ++i) expand += share.expands[i].num_columns;
    const double part = (worker_slot == 3 ? 0.5 : 1) / 11.5;
    // Shares are rounded to grains; an equal share has ten.
    EXPECT_NEAR(static_cast<double>(shrink), part * 192 * 4096, 0.08 / 12 * 192 * 4096)
        << worker_slot;
    EXPECT_NEAR(static_cast<double>(expand), part * 12288, 32) << worker_slot;
    EXPECT_NEAR(share.part, part * kWholeJob, 0.05 / 12 * kWholeJob) << worker_slot;
    EXPECT_LE(share.most_planes, 4U);  // in the stripe that the slow worker shares
  }
}

TEST(Share, KeepsPlanesWithinTheRoomThatWidestRanksLeave) {
  const GroupJob job = make_job(7, 4096, {64}, {512}, 0xfff, JobSplit::columns);
  for (const std::uint32_t planes : {1U, 2U, 3U}) {
    EXPECT_LE(share_of(job, 0, {DType::bf16, planes * 64}).most_planes, planes);
  }
}

}  // namespace
}  // namespace tandem
