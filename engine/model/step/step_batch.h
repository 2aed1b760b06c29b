// The metadata of one step: its rows, the places of their keys, the adapter of each row, and which
// rows are sampled and how.
//
// A batch is built on the CPU and sent to the device as one copy. A padded step is placed at
// addresses that depend on its bounds alone, so that a graph can be launched again with new
// contents. Cold groups (gpu/ops.h) refer to segments, so callers name them by slot, and upload()
// looks up the segments. Only the engine thread may use this.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/ids/slot_id.h"
#include "base/status.h"
#include "engine/loader/adapter.h"
#include "engine/memory/free_pages.h"
#include "engine/model/step/site_set.h"
#include "engine/model/step/step_bounds.h"
#include "engine/model/step/steps_in_flight.h"
#include "gpu/device.h"
#include "gpu/ops.h"

namespace tandem {

struct StepLimits {
  std::int32_t max_rows = 0;       // tokens in a step
  std::int32_t max_sequences = 0;  // sequences in a step
  std::int32_t max_samples = 0;    // rows with logits
  std::int32_t max_pages = 0;      // page ids of a group over all sequences
  std::int64_t max_history = 0;    // tokens over all sequences with penalties
  std::int32_t max_biases = 0;
  std::int32_t max_offers = 0;   // places of offers to CPU workers (offer_at)
  std::int32_t page_groups = 1;  // groups of layers with block tables of their own (KvGroups)
};

// The adapter of a sequence's rows; no slot: the base model.
struct AdapterSlot {
  SlotId slot;
  std::int32_t max_rank = 0;
  SiteRanks site_ranks = {};  // all 0: unknown, any site may have modules
  bool has_bias = false;
};

// A cold group by its slot: the rows of the adapter in `slot`, which must be in the batch.
struct ColdSlot {
  SlotId slot;
  std::int32_t mailbox = 0;
  std::int32_t first_row = 0;  // of the mailbox
  std::uint32_t generation = 0;
  std::uint64_t workers = 0;
};

// The input of the model; all pointers are to device memory.
struct StepInput {
  std::int32_t num_rows = 0;
  const std::int32_t* ids = nullptr;
  const std::int32_t* positions = nullptr;
  const std::int32_t* lengths = nullptr;  // of its sequence, by which each row rotates
  const std::int32_t* slots = nullptr;    // of the first group of layers; see slots_of()
  std::int32_t slot_stride = 0;           // between two groups
  std::int32_t num_sequences = 0;
  const AttentionSequence* sequences = nullptr;
  const AttentionSequence* host_sequences = nullptr;  // the same in host memory, for planning
  const std::int32_t* page_ids = nullptr;             // of the first group; see page_ids_of()
  const std::int32_t* more_page_ids = nullptr;        // of the other groups
  std::int32_t more_page_stride = 0;                  // between two of these groups
  std::int32_t max_rows = 0;                          // of any sequence, or a bound
  std::int32_t max_kv_len = 0;
  std::int32_t num_lora_rows = 0;
  const std::int32_t* lora_rows = nullptr;
  std::int32_t num_segments = 0;
  const LoraSegment* segments = nullptr;
  std::int32_t max_rank = 0;   // of any segment, or a bound
  std::int32_t max_count = 0;  // rows of the largest segment; padded: all rows
  SiteSet adapted;             // sites where adapters have modules, or a bound
  bool has_bias = false;       // an adapter has biases, or may have
  // Rows and segments as above, for a batch of only the rows with logits: for the head, and, in a
  // step without padding, for all behind the last layer's attention, where Model drops other rows.
  std::int32_t num_sampled_lora_rows = 0;
  const std::int32_t* sampled_lora_rows = nullptr;
  std::int32_t num_sampled_segments = 0;
  const LoraSegment* sampled_segments = nullptr;
  std::int32_t max_sampled_count = 0;
  // The adapter's slot of each row, and of each row with logits; -1: none. Null if no adapter has
  // weights of norms.
  const std::int32_t* row_slots = nullptr;
  const std::int32_t* sampled_slots = nullptr;
  SiteSet halved;               // sites with adapters in two halves (LoraPart)
  std::int32_t num_groups = 0;  // cold groups, in the order of set_cold()
  const ColdGroup* groups = nullptr;
  std::uint32_t* timed_out = nullptr;            // [num_groups], zero
  const OfferDescriptor* descriptors = nullptr;  // as given to set_cold()
  LoraSegment* live = nullptr;                   // memory for num_segments
  std::int32_t num_logits = 0;                   // rows with logits: num_samples, or more
  const std::int32_t* sample_rows = nullptr;     // [num_logits] row of each
  std::int32_t num_samples = 0;
  const SampleRow* samples = nullptr;
  const std::int32_t* history = nullptr;
  std::int32_t num_history = 0;
  const TokenBias* biases = nullptr;
  bool padded = false;

  // The slot of each row's key and value in the pages of a group of layers (KvGroups).
  const std::int32_t* slots_of(std::int32_t group) const { return slots + group * slot_stride; }
  // The block tables of a group, one after another. A sequence's table has the same place in all.
  const std::int32_t* page_ids_of(std::int32_t group) const {
    return group == 0 ? page_ids : more_page_ids + (group - 1) * more_page_stride;
  }
};

class StepBatch {
 public:
  static Result<StepBatch> create(Device& device, const StepLimits& limits);

  void clear();

  // Adds `tokens` at positions start, start + 1, ... of a sequence with these `pages`: a block
  // table for each group, of equal lengths, that covers all positions up to the last token. They
  // rotate by the sequence's length up to each of them, but at least by `rotary_length`
  // (RotaryLengths). The adapter acts on token `first_adapted` and those behind it. Returns the
  // index of the first row.
  std::int32_t add_sequence(std::span<const std::int32_t> tokens, std::int64_t start,
                            std::span<const PageId> pages, std::int32_t page_tokens,
                            AdapterSlot adapter, std::int64_t rotary_length = 0,
                            std::int32_t first_adapted = 0);

  // Requests logits of `row`, sampled according to `how` (whose indices into history and biases are
  // filled in here). `history`: the prompt, then the output; empty without penalties.
  void add_sample(std::int32_t row, SampleRow how, std::span<const std::int32_t> history,
                  std::span<const TokenBias> biases);

  // Sets the cold groups of a step, up to kMaxColdGroups, and an OfferDescriptor at the place of
  // each of its offers (offer_at). The number of OfferDescriptors is the same for all steps.
  void set_cold(std::span<const ColdSlot> cold, std::span<const OfferDescriptor> descriptors);

  std::int32_t num_rows() const { return static_cast<std::int32_t>(ids_.size()); }
  std::int32_t num_samples() const { return static_cast<std::int32_t>(samples_.size()); }
  std::int32_t rows_left() const { return limits_.max_rows - num_rows(); }
  std::int32_t samples_left() const { return limits_.max_samples - num_samples(); }

  // True if every sequence has one row.
  bool decodes_only() const { return num_rows() == static_cast<std::int32_t>(sequences_.size()); }

  std::int32_t num_sequences() const { return static_cast<std::int32_t>(sequences_.size()); }
  std::int32_t num_groups() const { return static_cast<std::int32_t>(cold_.size()); }

  // Pads rows, sequences, segments and rows with logits up to the bounds, with entries whose
  // results are never read. Requires a batch that decodes only and has no cold groups; it takes no
  // more sequences after this. No bound may be below the batch's value, nor below the number of
  // samples.
  void pad(const StepBounds& bounds);

  std::int32_t max_rank() const;  // of the adapters in the batch; 0: no adapters
  SiteRanks site_ranks() const;   // sums over the distinct adapters in the batch
  SiteSet adapted() const;        // sites where any adapter has modules
  bool has_bias() const;          // whether any adapter has biases

  // Sets the sites with adapters in two halves; Model::compute says when that is allowed.
  void halve(SiteSet sites) { halved_ = sites; }
  SiteSet halved() const { return halved_; }

  // Enqueues the copy to the device; the batch may be changed right after. Waits until the upload
  // kMaxStepsInFlight steps ago has been copied, which is so if that step has been waited for.
  StepInput upload(Stream& stream);

  // The result of upload() for any batch that is padded to these bounds, except for the sampling's
  // input and the numbers of groups and logits. Clears the batch.
  StepInput padded_input(const StepBounds& bounds, SiteSet halved = {});

 private:
  StepBatch() = default;
  void group_rows_by_adapter();
  void group_samples_by_adapter();
  void find_row_slots();
  void find_groups();
  void settle_keys();
  void fill_up();
  // The bytes of the block that an upload copies.
  struct Used {
    std::size_t begin = 0;
    std::size_t end = 0;
  };
  StepInput pack(std::byte* pinned, Used& used) const;

  struct SequenceAdapter {
    AdapterSlot adapter;
    std::int32_t first_row;
    std::int32_t num_rows;
  };

  // The pages of a sequence whose last keys are written by this step.
  struct FilledPages {
    std::int32_t sequence;
    std::int32_t begin, end;  // indices in the sequence's table
  };

  StepLimits limits_;
  std::vector<std::int32_t> ids_, positions_, lengths_, lora_rows_, sample_rows_, history_,
      sampled_lora_rows_, row_slots_, sampled_slots_;
  std::vector<std::vector<std::int32_t>> slots_, page_ids_;  // by group
  std::vector<AttentionSequence> sequences_;
  std::vector<FilledPages> filled_;
  std::int32_t page_tokens_ = 0;
  std::vector<LoraSegment> segments_, sampled_segments_;
  std::vector<SampleRow> samples_;
  std::vector<TokenBias> biases_;
  std::vector<SequenceAdapter> adapters_;
  std::vector<ColdSlot> cold_;
  std::vector<ColdGroup> groups_;
  std::vector<std::uint32_t> timed_out_;
  std::vector<OfferDescriptor> descriptors_;
  SiteSet halved_;
  StepBounds bounds_;  // no rows: the batch is not padded
  // Blocks of host memory, used in turn: one is filled while the device may still read the other.
  struct Staging {
    Buffer pinned;
    std::unique_ptr<Event> copied;
  };
  std::array<Staging, kMaxStepsInFlight> staging_;
  std::size_t turn_ = 0;
  Buffer device_;
  Buffer live_;  // [max_sequences] LoraSegment, written by offers
};

}  // namespace tandem
