#include "cpu_lora/worker/share.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace tandem {
namespace {

constexpr std::uint32_t kRankBlock = 16;  // outputs of a tile
constexpr std::uint32_t kInBlock = 32;    // elements that a tile multiplies at once
constexpr std::uint32_t kWorkersOfStripe = 2;
constexpr std::uint32_t kMostGrains = 32;   // per stripe, and so the most planes
constexpr std::uint32_t kLeastGrain = 128;  // elements of `in`
constexpr std::uint32_t kFloatsPerLine = 16;

constexpr std::uint32_t blocks_of(std::uint32_t n, std::uint32_t block) {
  return (n + block - 1) / block;
}

// A job's workers by number, and the sum of the weights before each.
struct Team {
  std::uint32_t count = 0;
  std::array<std::uint8_t, kMaxWorkerSlots> worker_slots;
  std::array<std::uint32_t, kMaxWorkerSlots + 1> before{};

  Team(std::uint64_t workers, const WorkerSlotWeights& weights) {
    for (; workers != 0; workers &= workers - 1) {
      const auto worker_slot = static_cast<std::uint8_t>(std::countr_zero(workers));
      worker_slots[count] = worker_slot;
      before[count + 1] = before[count] + std::max<std::uint32_t>(weights[worker_slot], 1);
      ++count;
    }
  }
  // The beginning of worker i's part.
  std::uint64_t cut(std::uint64_t total, std::uint32_t i) const {
    return total * before[i] / before[count];
  }
};

// The division of shrink: stripes, each cut along `in` into `grains` grains.
struct Stripes {
  std::array<Stripe, Share::kMaxStripes> stripes;
  std::uint32_t count = 0;
  std::uint32_t grains = 1;

  Stripes(const GroupJob& job, const Team& team, std::uint32_t v_row) {
    std::uint32_t blocks = 0;
    for (std::uint32_t m = 0; m < job.num_modules; ++m) {
      blocks += blocks_of(job.modules[m].rank, kRankBlock);
    }
    if (blocks == 0) return;
    const bool alone = team.count == 1;
    const std::uint32_t width =
        kRankBlock * (alone ? blocks : blocks_of(kWorkersOfStripe * blocks, team.count));
    for (std::uint32_t m = 0; m < job.num_modules; ++m) {
      const std::uint32_t rank = job.modules[m].rank;
      for (std::uint32_t first = 0; first < rank; first += width) {
        stripes[count++] = {m, first, std::min(width, rank - first), 0};
      }
    }
    if (alone) return;
    // Each grain may belong to another worker, with a plane of its own.
    const std::uint64_t planes =
        std::uint64_t{job.rows} * v_row / std::max<std::uint64_t>(v_plane_of(job), 1);
    const auto most = static_cast<std::uint32_t>(
        std::clamp<std::uint64_t>(planes, 1, std::max(job.in / kLeastGrain, 1U)));
    // Each of a stripe's workers gets the same number of grains if their weights are even.
    const std::uint32_t workers = std::max(team.count / count, 1U);
    grains = std::min(most, kMostGrains);
    if (grains > workers) grains -= grains % workers;
  }

  std::uint32_t cost(std::uint32_t stripe) const {  // cost of one grain
    return blocks_of(stripes[stripe].num_ranks, kRankBlock);
  }
};

// The beginning of a grain in `in`.
std::uint32_t in_at(const GroupJob& job, std::uint32_t grain, std::uint32_t grains) {
  const std::uint64_t block = std::uint64_t{blocks_of(job.in, kInBlock)} * grain / grains;
  return std::min(static_cast<std::uint32_t>(block) * kInBlock, job.in);
}

// Lays the stripes end to end and gives each worker a run of grains. Counts planes, and records the
// part of worker `index` and the writers of the other parts.
void cut_stripes(const GroupJob& job, Stripes& of, const Team& team, std::uint32_t index,
                 Share& share, std::array<std::uint64_t, kMaxModulesOfJob>& writers) {
  std::uint64_t total = 0;
  for (std::uint32_t s = 0; s < of.count; ++s) total += std::uint64_t{of.cost(s)} * of.grains;
  std::uint64_t before = 0;  // cost before the stripe
  std::uint32_t worker = 0;
  for (std::uint32_t s = 0; s < of.count; ++s) {
    Stripe& stripe = of.stripes[s];
    const std::uint64_t cost = of.cost(s);
    for (std::uint32_t from = 0; from < of.grains;) {
      const std::uint64_t end = team.cut(total, worker + 1);
      const std::uint64_t inside = end > before ? (end - before + cost / 2) / cost : 0;
      const auto to = static_cast<std::uint32_t>(std::min<std::uint64_t>(inside, of.grains));
      if (to > from) {
        if (worker == index) {
          const std::uint32_t in = in_at(job, from, of.grains);
          share.shrinks[share.num_shrinks++] = {stripe.module,
                                                stripe.first_rank,
                                                stripe.num_ranks,
                                                in,
                                                in_at(job, to, of.grains) - in,
                                                stripe.num_planes};
          share.part += static_cast<std::uint32_t>(kWholeJob * cost * (to - from) / total / 2);
        } else {
          writers[stripe.module] |= std::uint64_t{1} << team.worker_slots[worker];
        }
        ++stripe.num_planes;
        from = to;
      }
      // If a worker's run ends with the stripe, the next worker's run begins with the next stripe.
      if (to < of.grains || end <= before + cost * of.grains) ++worker;
    }
    before += cost * of.grains;
  }
  share.num_stripes = of.count;
  share.stripes = of.stripes;
  for (const Stripe& stripe : share.stripes_of_all()) {
    share.most_planes = std::max(share.most_planes, stripe.num_planes);
  }
}

void add_expands(const GroupJob& job, const Team& team, std::uint32_t index, DType dtype,
                 Share& share) {
  const auto line = static_cast<std::uint32_t>(64 / size_of(dtype));
  std::array<std::uint64_t, kMaxModulesOfJob> cost{};  // cost of one line of columns
  std::uint64_t total = 0;
  for (std::uint32_t m = 0; m < job.num_modules; ++m) {
    if (job.modules[m].rank == 0) continue;
    // Writing a column has a cost even if the rank is small.
    cost[m] = blocks_of(job.modules[m].rank, kInBlock) + 1;
    total += cost[m] * blocks_of(job.modules[m].out, line);
  }
  const std::uint64_t begin = team.cut(total, index);
  const std::uint64_t end = team.cut(total, index + 1);
  std::uint64_t first = 0;
  for (std::uint32_t m = 0; m < job.num_modules; ++m) {
    if (cost[m] == 0) continue;
    const std::uint32_t lines = blocks_of(job.modules[m].out, line);
    const auto line_at = [&](std::uint64_t at) {  // rounded up, equally on both sides of a cut
      const std::uint64_t inside = at > first ? at - first : 0;
      return static_cast<std::uint32_t>(
          std::min<std::uint64_t>((inside + cost[m] - 1) / cost[m], lines));
    };
    const std::uint32_t from = std::min(line_at(begin) * line, job.modules[m].out);
    const std::uint32_t to = std::min(line_at(end) * line, job.modules[m].out);
    first += cost[m] * lines;
    if (from == to) continue;
    share.expands[share.num_expands++] = {m, from, to - from};
    share.part +=
        static_cast<std::uint32_t>(kWholeJob * cost[m] * blocks_of(to - from, line) / total / 2);
  }
}

}  // namespace

std::uint64_t v_plane_of(const GroupJob& job) {
  const std::uint64_t floats = std::uint64_t{job.rows} * job.rank_columns;
  return (floats + kFloatsPerLine - 1) / kFloatsPerLine * kFloatsPerLine;
}

Share share_of(const GroupJob& job, int worker_slot, const JobTerms& terms) {
  const std::uint64_t bit = std::uint64_t{1} << worker_slot;
  TANDEM_CHECK((job.workers & bit) != 0, "worker slot {} is not in {:#x}", worker_slot,
               job.workers);
  const Team all(job.workers, terms.weights);
  auto index = static_cast<std::uint32_t>(std::popcount(job.workers & (bit - 1)));
  Share share;
  share.num_rows = job.rows;
  const bool by_tokens = job.split == JobSplit::tokens;
  if (by_tokens) {
    share.first_row = static_cast<std::uint32_t>(all.cut(job.rows, index));
    share.num_rows = static_cast<std::uint32_t>(all.cut(job.rows, index + 1)) - share.first_row;
    if (share.num_rows == 0) return share;
    index = 0;
  }
  const Team team = by_tokens ? Team(bit, terms.weights) : all;

  Stripes stripes(job, team, terms.v_row);
  std::array<std::uint64_t, kMaxModulesOfJob> writers{};  // other writers, by module
  cut_stripes(job, stripes, team, index, share, writers);
  add_expands(job, team, index, terms.dtype, share);
  for (const std::uint64_t worker_slots : writers) share.reduce_peers |= worker_slots;
  for (std::uint32_t i = 0; i < share.num_expands; ++i) {
    share.expand_peers |= writers[share.expands[i].module];
  }
  const std::uint64_t sums = std::uint64_t{job.rows} * job.rank_columns;
  const std::uint64_t lines = (sums + kFloatsPerLine - 1) / kFloatsPerLine;
  share.first_sum = std::min(team.cut(lines, index) * kFloatsPerLine, sums);
  share.num_sums = std::min(team.cut(lines, index + 1) * kFloatsPerLine, sums) - share.first_sum;
  return share;
}

}  // namespace tandem
