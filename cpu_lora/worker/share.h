// The part of a group's job that each worker computes: a pure function of the job, the worker slot
// and the weights of all worker slots. Every worker evaluates it for itself, so that work need not
// be handed out. A worker's part is its weight over the sum of the weights of all workers of the
// job.
//
// Split by columns, the two products are cut differently:
//
//   shrink   v = x A^T. Stripes of A's rows are laid end to end and cut along `in`: with even
//            weights two workers share a stripe, each with half of `in`, or more workers if there
//            are few rows. Each writes its sums to a plane of its own, and readers of the stripe
//            add its planes up. With one worker per stripe each would read all of x: q, k, v of
//            rank 64 on 12 cores of an H200's host took 82, 139, 254 us for 16, 64 and 128 rows,
//            but 65, 130, 223 with two workers per stripe, and no less with four.
//   expand   y = v B^T. Columns of y, divided so that each part of B is in proportion to its
//            worker's weight, at multiples of 64 bytes of y.
//   reduce   (for cpu_xa) the sum of the planes, divided at multiples of 64 bytes.
//
// Between the two a worker waits for its `peers`, the writers of what it reads.
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

// Columns of v that are cut in the same way.
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
  std::array<Stripe, kMaxStripes> stripes;      // all of v, in its order
  std::array<ShrinkPart, kMaxStripes> shrinks;  // at most one per stripe
  std::array<ExpandPart, kMaxModulesOfJob> expands;
  std::uint32_t most_planes = 1;              // of a stripe
  std::uint64_t expand_peers = 0;             // other worker slots that wrote v of `expands`
  std::uint64_t reduce_peers = 0;             // other worker slots that wrote any of v
  std::uint64_t first_sum = 0, num_sums = 0;  // for cpu_xa: range of the rows * rank_columns floats
  std::uint32_t part = 0;  // share of kWholeJob: the mean of its parts of both products

  std::span<const Stripe> stripes_of_all() const { return std::span(stripes).first(num_stripes); }
};

// Terms that all workers of a job share, besides the job.
struct JobTerms {
  DType dtype = DType::bf16;
  std::uint32_t v_row = 0;  // Mailbox::v_row(): floats that all planes of a row of v may take
  WorkerSlotWeights weights = kEvenWeights;  // weight 0 counts as 1
};

// `worker_slot` is one of job.workers. The job's sizes have been checked (delta.h).
Share share_of(const GroupJob& job, int worker_slot, const JobTerms& terms);

// Floats from one plane of v to the next.
std::uint64_t v_plane_of(const GroupJob& job);

}  // namespace tandem
