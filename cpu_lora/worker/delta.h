// One worker's share of a group's delta: packs its weights, multiplies, adds up.
//
//   assign -> pack_some, as often as there is time -> shrink -> [the peers' shrink] -> expand
//                                                            -> [the peers' shrink] -> reduce
//
// No waiting and no shared words in here: worker_loop.cpp does that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/memory/aligned_bytes.h"
#include "base/status.h"
#include "cpu_lora/worker/product.h"
#include "cpu_lora/worker/share.h"
#include "shm/mailbox.h"

namespace tandem {

// What a job says against what there is: a worker touches nothing on the word of one that fails.
Status check_group_job(const GroupJob& job, const MailboxShape& shape, std::size_t arena_bytes);

// A group's places in the mailbox: row 0 of each.
struct DeltaPlaces {
  const std::byte* x = nullptr;
  float* v = nullptr;
  std::int64_t v_plane = 0;  // floats from a plane of v to the next
  std::byte* y = nullptr;
};
DeltaPlaces places_of(const Mailbox& mailbox, const GroupJob& job);

// A share and how far its weights are packed. Reused from job to job: it keeps its memory.
class DeltaTask {
 public:
  const GroupJob& job() const { return job_; }
  const Share& share() const { return share_; }

 private:
  friend class WorkerDelta;
  struct Piece {  // of the weights: a ShrinkPart's or an ExpandPart's
    WeightsView weights;
    std::size_t offset = 0;  // in packed_
    std::int64_t packed_rows = 0;
  };

  GroupJob job_;
  Share share_;
  std::vector<Piece> pieces_;  // shrinks, then expands
  std::size_t next_ = 0;       // piece to be packed
  std::size_t bytes_ = 0;      // of all pieces packed
  bool keeps_ = false;         // all pieces have their place in packed_
  AlignedBytes packed_;
};

// Used by one thread.
class WorkerDelta {
 public:
  static Result<WorkerDelta> create(DType dtype, ProductKind kind = ProductKind::best);

  const char* name() const { return product_->name(); }
  // Multiplies once, so that what the library sets up at its first call is there.
  Status warm_up();

  // The job has passed check_group_job() and `worker_slot` shares it; A and B lie in `arena`.
  // Packed weights of up to `most_bytes` are kept; those of a greater share are packed slab by slab
  // as they are used, and ahead of that not at all.
  void assign(DeltaTask& task, const GroupJob& job, int worker_slot, const JobTerms& terms,
              const std::byte* arena, std::size_t most_bytes);
  std::size_t kept_bytes(const DeltaTask& task) const { return task.keeps_ ? task.bytes_ : 0; }
  // Packs a few rows of weights (kPackRows), which must be in the arena; false: all is packed.
  bool pack_some(DeltaTask& task) { return pack_next(task, task.pieces_.size()); }
  // What expand() would otherwise begin with.
  void pack_rest(DeltaTask& task);

  // Its part of v, in the planes that share_of() says.
  Status shrink(DeltaTask& task, const DeltaPlaces& places);
  // Its part of y, from all of v.
  Status expand(DeltaTask& task, const DeltaPlaces& places);
  // Its part of the sum of v's planes, in plane 0. Nothing to do with one plane a stripe.
  void reduce(const DeltaTask& task, const DeltaPlaces& places) const;

 private:
  WorkerDelta(DType dtype, std::unique_ptr<Product> product)
      : dtype_(dtype), product_(std::move(product)) {}

  bool pack_next(DeltaTask& task, std::size_t end);
  void add_planes(const DeltaTask& task, const DeltaPlaces& places, std::uint32_t module,
                  std::byte* input, std::size_t row_bytes);
  Status multiply(DeltaTask& task, std::size_t piece, ProductArgs args);

  DType dtype_;
  std::unique_ptr<Product> product_;
  AlignedBytes input_;  // v as the second product reads it
  AlignedBytes slab_;
};

}  // namespace tandem
