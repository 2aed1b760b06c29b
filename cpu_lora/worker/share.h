// Which part of a group's job each of its workers computes: a pure function of the job and the seat
// that every worker evaluates for itself, so that nobody has to hand out work.
//
// Split by columns, the two products are cut differently:
//
//   shrink   v = x A^T. Cells of 16 ranks x a share of `in`, in the order module, share of in,
//            ranks; each worker has a run of them. The shares of `in` go to planes of v, which
//            are summed by whoever reads them. With ranks alone cut, every worker would read all
//            of x. On an H200's host, 12 cores, q, k, v of rank 64: 82, 139, 254 us for 16, 64 and
//            128 rows with one plane, 65, 130, 223 with two, and no better with four.
//   expand   y = v B^T. Columns of y, cut where about as much of B lies on either side, at
//            multiples of 64 bytes of y.
//   reduce   (for cpu_xa) the sum of the planes, cut at multiples of 64 bytes.
//
// Between the two a worker waits for `peers`: those who wrote what it reads.
//
// Split by tokens, each worker has rows of x and does both products for them.
#pragma once

#include <array>
#include <cstdint>

#include "shm/mailbox.h"

namespace tandem {

struct ShrinkPart {
  std::uint32_t module = 0;
  std::uint32_t first_rank = 0, num_ranks = 0;
  std::uint32_t first_in = 0, num_in = 0;
  std::uint32_t plane = 0;
  bool operator==(const ShrinkPart&) const = default;
};

struct ExpandPart {
  std::uint32_t module = 0;
  std::uint32_t first_column = 0, num_columns = 0;  // of the module
  bool operator==(const ExpandPart&) const = default;
};

struct Share {
  // A run of cells touches each pair of module and plane once, with at most three runs of ranks.
  static constexpr std::uint32_t kMaxShrinks = kMaxModulesOfJob * kNumVPlanes;

  std::uint32_t first_row = 0, num_rows = 0;  // of the group
  std::uint32_t num_shrinks = 0, num_expands = 0;
  std::array<ShrinkPart, kMaxShrinks> shrinks;
  std::array<ExpandPart, kMaxModulesOfJob> expands;
  std::uint32_t num_planes = 1;               // of v, in use
  std::uint64_t expand_peers = 0;             // seats other than this one that wrote v of `expands`
  std::uint64_t reduce_peers = 0;             // the same of all of v
  std::uint64_t first_sum = 0, num_sums = 0;  // for cpu_xa: of the rows * rank_columns floats
};

// `seat` is one of job.workers. The job's sizes have been checked (worker_loop.cpp).
Share share_of(const GroupJob& job, int seat, DType dtype);

}  // namespace tandem
