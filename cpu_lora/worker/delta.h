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

// Checks a job's description against the sizes of the regions. A worker must use nothing of a job
// that fails.
Status check_group_job(const GroupJob& job, const MailboxShape& shape, std::size_t arena_bytes);

// The memory of a group in the mailbox: row 0 of each area.
struct DeltaPlaces {
  const std::byte* x = nullptr;
  float* v = nullptr;
  std::int64_t v_plane = 0;  // floats from one plane of v to the next
  std::byte* y = nullptr;
};
DeltaPlaces places_of(const Mailbox& mailbox, const GroupJob& job);

// A share and the progress of packing its weights. Reused from job to job, to keep its memory.
class DeltaTask {
 public:
  const GroupJob& job() const { return job_; }
  const Share& share() const { return share_; }

 private:
  friend class WorkerDelta;
  struct Piece {  // weights of a ShrinkPart or an ExpandPart
    WeightsView weights;
    std::size_t offset = 0;  // in packed_
    std::int64_t packed_rows = 0;
  };

  GroupJob job_;
  Share share_;
  std::vector<Piece> pieces_;  // shrinks, then expands
  std::size_t next_ = 0;       // next piece to pack
  std::size_t bytes_ = 0;      // packed size of all pieces
  bool keeps_ = false;         // all pieces fit in packed_
  AlignedBytes packed_;
};

// Used by one thread.
class WorkerDelta {
 public:
  static Result<WorkerDelta> create(DType dtype, ProductKind kind = ProductKind::best);

  const char* name() const { return product_->name(); }
  // Multiplies once, so that the library's one-time setup is done.
  Status warm_up();

  // Requires a job that has passed check_group_job() and that `worker_slot` shares; A and B lie in
  // `arena`. Up to `most_bytes` of packed weights are kept. The weights of a larger share are
  // packed slab by slab when they are used, and not ahead of that.
  void assign(DeltaTask& task, const GroupJob& job, int worker_slot, const JobTerms& terms,
              const std::byte* arena, std::size_t most_bytes);
  std::size_t kept_bytes(const DeltaTask& task) const { return task.keeps_ ? task.bytes_ : 0; }
  // Packs a few rows of weights (kPackRows), which must be in the arena; false: all are packed.
  bool pack_some(DeltaTask& task) { return pack_next(task, task.pieces_.size()); }
  // Packs the rest ahead of expand(), which would otherwise begin with it.
  void pack_rest(DeltaTask& task);

  // Computes its part of v, in the planes given by share_of().
  Status shrink(DeltaTask& task, const DeltaPlaces& places);
  // Computes its part of y, from all of v.
  Status expand(DeltaTask& task, const DeltaPlaces& places);
  // Adds its part of v's planes up in plane 0. Does nothing if each stripe has one plane.
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
  AlignedBytes input_;  // v, as the second product reads it
  AlignedBytes slab_;
};

}  // namespace tandem
