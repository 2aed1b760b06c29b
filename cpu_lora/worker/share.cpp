#include "cpu_lora/worker/share.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace tandem {
namespace {

constexpr std::uint32_t kRankBlock = 16;   // outputs of a tile
constexpr std::uint32_t kInBlock = 32;     // elements that a tile multiplies at once
constexpr std::uint32_t kMinInPart = 512;  // less is not worth a plane
constexpr std::uint32_t kFloatsPerLine = 16;

constexpr std::uint32_t blocks_of(std::uint32_t n, std::uint32_t block) {
  return (n + block - 1) / block;
}

// Where part i of n equal ones of `total` begins.
constexpr std::uint64_t cut(std::uint64_t total, std::uint64_t i, std::uint64_t n) {
  return total * i / n;
}

// The cells of shrink: how many, and how they lie.
struct Cells {
  std::uint32_t num_planes = 1;
  std::array<std::uint32_t, kMaxModulesOfJob> rank_blocks{};
  std::uint32_t total = 0;
};

Cells cells_of(const GroupJob& job, std::uint32_t num_workers) {
  Cells cells;
  cells.num_planes = std::clamp(job.in / kMinInPart, 1U, std::min(kNumVPlanes, num_workers));
  for (std::uint32_t m = 0; m < job.num_modules; ++m) {
    cells.rank_blocks[m] = blocks_of(job.modules[m].rank, kRankBlock);
    cells.total += cells.rank_blocks[m] * cells.num_planes;
  }
  return cells;
}

void add_shrinks(const GroupJob& job, const Cells& cells, std::uint32_t begin, std::uint32_t end,
                 Share& share) {
  std::uint32_t first = 0;  // cell of this module and plane
  const std::uint32_t in_blocks = blocks_of(job.in, kInBlock);
  for (std::uint32_t m = 0; m < job.num_modules; ++m) {
    const std::uint32_t count = cells.rank_blocks[m];
    for (std::uint32_t plane = 0; plane < cells.num_planes; ++plane, first += count) {
      const std::uint32_t from = std::max(begin, first);
      const std::uint32_t to = std::min(end, first + count);
      if (from >= to) continue;
      ShrinkPart part;
      part.module = m;
      part.plane = plane;
      part.first_rank = (from - first) * kRankBlock;
      part.num_ranks = std::min((to - first) * kRankBlock, job.modules[m].rank) - part.first_rank;
      const auto in_at = [&](std::uint32_t p) {
        const auto block = static_cast<std::uint32_t>(cut(in_blocks, p, cells.num_planes));
        return std::min(block * kInBlock, job.in);
      };
      part.first_in = in_at(plane);
      part.num_in = in_at(plane + 1) - part.first_in;
      share.shrinks[share.num_shrinks++] = part;
    }
  }
}

// Modules whose cells are among [begin, end), as bits.
std::uint32_t modules_of(const GroupJob& job, const Cells& cells, std::uint64_t begin,
                         std::uint64_t end) {
  std::uint32_t mask = 0;
  std::uint64_t first = 0;
  for (std::uint32_t m = 0; m < job.num_modules; ++m) {
    const std::uint64_t count = std::uint64_t{cells.rank_blocks[m]} * cells.num_planes;
    if (std::max(begin, first) < std::min(end, first + count)) mask |= 1U << m;
    first += count;
  }
  return mask;
}

void add_expands(const GroupJob& job, std::uint32_t index, std::uint32_t num_workers, DType dtype,
                 Share& share) {
  const auto line = static_cast<std::uint32_t>(64 / size_of(dtype));
  std::array<std::uint64_t, kMaxModulesOfJob> cost{};  // of one line of columns
  std::uint64_t total = 0;
  for (std::uint32_t m = 0; m < job.num_modules; ++m) {
    if (job.modules[m].rank == 0) continue;
    // A column costs its output even where the rank is small.
    cost[m] = blocks_of(job.modules[m].rank, kInBlock) + 1;
    total += cost[m] * blocks_of(job.modules[m].out, line);
  }
  const std::uint64_t begin = cut(total, index, num_workers);
  const std::uint64_t end = cut(total, index + 1, num_workers);
  std::uint64_t first = 0;
  for (std::uint32_t m = 0; m < job.num_modules; ++m) {
    if (cost[m] == 0) continue;
    const std::uint32_t lines = blocks_of(job.modules[m].out, line);
    const auto line_at = [&](std::uint64_t at) {  // rounded up, alike for both sides of a cut
      const std::uint64_t inside = at > first ? at - first : 0;
      return static_cast<std::uint32_t>(
          std::min<std::uint64_t>((inside + cost[m] - 1) / cost[m], lines));
    };
    const std::uint32_t from = std::min(line_at(begin) * line, job.modules[m].out);
    const std::uint32_t to = std::min(line_at(end) * line, job.modules[m].out);
    first += cost[m] * lines;
    if (from < to) share.expands[share.num_expands++] = {m, from, to - from};
  }
}

}  // namespace

Share share_of(const GroupJob& job, int seat, DType dtype) {
  const std::uint64_t bit = std::uint64_t{1} << seat;
  TANDEM_CHECK((job.workers & bit) != 0, "seat {} is not in {:#x}", seat, job.workers);
  const auto num_workers = static_cast<std::uint32_t>(std::popcount(job.workers));
  const auto index = static_cast<std::uint32_t>(std::popcount(job.workers & (bit - 1)));
  Share share;
  if (job.split == JobSplit::tokens || num_workers == 1) {
    share.first_row = static_cast<std::uint32_t>(cut(job.rows, index, num_workers));
    share.num_rows =
        static_cast<std::uint32_t>(cut(job.rows, index + 1, num_workers)) - share.first_row;
    if (share.num_rows == 0) return share;
    const Cells cells = cells_of(job, 1);
    add_shrinks(job, cells, 0, cells.total, share);
    add_expands(job, 0, 1, dtype, share);
    return share;
  }

  share.num_rows = job.rows;
  const Cells cells = cells_of(job, num_workers);
  share.num_planes = cells.num_planes;
  const auto cell_at = [&](std::uint32_t i) {
    return static_cast<std::uint32_t>(cut(cells.total, i, num_workers));
  };
  add_shrinks(job, cells, cell_at(index), cell_at(index + 1), share);
  add_expands(job, index, num_workers, dtype, share);
  std::uint32_t expanded = 0;
  for (std::uint32_t i = 0; i < share.num_expands; ++i) expanded |= 1U << share.expands[i].module;

  std::uint32_t i = 0;
  for (std::uint64_t left = job.workers; left != 0; left &= left - 1, ++i) {
    if (i == index) continue;
    const std::uint64_t worker = left & -left;
    const std::uint32_t modules = modules_of(job, cells, cell_at(i), cell_at(i + 1));
    if (modules != 0) share.reduce_peers |= worker;
    if ((modules & expanded) != 0) share.expand_peers |= worker;
  }

  const std::uint64_t sums = std::uint64_t{job.rows} * job.rank_columns;
  const std::uint64_t lines = (sums + kFloatsPerLine - 1) / kFloatsPerLine;
  share.first_sum = std::min(cut(lines, index, num_workers) * kFloatsPerLine, sums);
  share.num_sums =
      std::min(cut(lines, index + 1, num_workers) * kFloatsPerLine, sums) - share.first_sum;
  return share;
}

}  // namespace tandem
