// Which part of a group's job each of its workers computes: a pure function of the job, the worker
// slot and the worker slots' weights that every worker evaluates for itself, so that nobody has to
// hand out work. A worker slot's part is its weight's of the sum of them all.
//
// Split by columns, the two products are cut differently:
//
//   shrink   v = x A^T. Stripes of A's rows, laid end to end and cut along `in`: with even weights
//            two workers share a stripe, each with half of `in`, or more of them where there are
//            few rows. Each writes its sums to a plane of its own, and whoever reads the stripe
//            adds its planes up. With stripes of one worker each would read all of x: on an H200's
//            host, 12 cores, q, k, v of rank 64: 82, 139, 254 us for 16, 64 and 128 rows, 65, 130,
//            223 with two to a stripe, and no better with four.
//   expand   y = v B^T. Columns of y, cut where as much of B lies on either side as the weights
//            say, at multiples of 64 bytes of y.
//   reduce   (for cpu_xa) the sum of the planes, cut at multiples of 64 bytes.
//
// Between the two a worker waits for `peers`: those who wrote what it reads.
//
// Split by tokens, each worker has rows of x and does both products for them.
#pragma once

#include <array>
#include <cstdint>
#include <span>

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

// Columns of v that were cut alike.
struct Stripe {
  std::uint32_t module = 0;
  std::uint32_t first_rank = 0, num_ranks = 0;
  std::uint32_t num_planes = 1;
  bool operator==(const Stripe&) const = default;
};

struct Share {
  static constexpr std::uint32_t kMaxStripes = kMaxWorkerSlots / 2 + kMaxModulesOfJob;

  std::uint32_t first_row = 0, num_rows = 0;  // of the group
  std::uint32_t num_stripes = 0, num_shrinks = 0, num_expands = 0;
  std::array<Stripe, kMaxStripes> stripes;      // of all of v, in its order
  std::array<ShrinkPart, kMaxStripes> shrinks;  // one of a stripe at most
  std::array<ExpandPart, kMaxModulesOfJob> expands;
  std::uint32_t most_planes = 1;   // of a stripe
  std::uint64_t expand_peers = 0;  // worker slots other than this one that wrote v of `expands`
  std::uint64_t reduce_peers = 0;  // the same of all of v
  std::uint64_t first_sum = 0, num_sums = 0;  // for cpu_xa: of the rows * rank_columns floats
  std::uint32_t part = 0;  // of kWholeJob: the mean of its parts of both products

  std::span<const Stripe> stripes_of_all() const { return std::span(stripes).first(num_stripes); }
};

// What all workers of a job know beside it.
struct JobTerms {
  DType dtype = DType::bf16;
  std::uint32_t v_row = 0;  // Mailbox::v_row(): floats that all planes of a row of v may take
  WorkerSlotWeights weights = kEvenWeights;  // a worker slot of weight 0 has 1
};

// `worker_slot` is one of job.workers. The job's sizes have been checked (delta.h).
Share share_of(const GroupJob& job, int worker_slot, const JobTerms& terms);

// Floats from a plane of v to the next.
std::uint64_t v_plane_of(const GroupJob& job);

}  // namespace tandem
