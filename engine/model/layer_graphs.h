// Recordings of single layers, for steps that are not launched as a whole (DecodeGraphs): short
// prompts, and steps that wait for weights or hand rows to CPU workers layer by layer.
//
// A layer is a dozen kernels and more. Two threads that launch them on two GPUs took 6 us a kernel
// where the GPUs were idle at first, a recording of all 0.7 us (H100s, empty kernels). What it
// gains depends on the model and on who is idle: docs/benchmarks.md. Recordings take GPU memory,
// some 0.2 MB a layer of Llama-2-7B.
//
// A recording depends on what LayerKind says. All that varies beside it lies in the step's
// metadata, at addresses that the bounds alone decide. The engine thread alone uses it.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/status.h"
#include "engine/model/recorded_graph.h"
#include "engine/model/step_batch.h"
#include "engine/model/step_bounds.h"
#include "engine/model/step_handoff.h"
#include "gpu/device.h"

namespace tandem {

struct LayerKind {
  std::int64_t layer = 0;
  std::int32_t rows = 0, sequences = 0, max_rank = 0, groups = 0;  // as in StepBounds
  SiteSet halved, offered, xa;
  friend constexpr auto operator<=>(const LayerKind&, const LayerKind&) = default;  // NOLINT
};

class LayerGraphs {
 public:
  // When layers are recorded that no step has had yet. To make a recording may wait for all that
  // the device has to do, loads too: a step that needs a load that waits for it would never end.
  enum class When : std::uint8_t {
    beforehand,  // by record() alone: other layers are enqueued, operation by operation
    when_met,    // for devices that do not wait
  };

  // For steps of up to `max_rows` rows; 0: none.
  LayerGraphs(std::int32_t max_rows, std::int32_t max_rank, std::int64_t max_positions, When when);

  // What offers are recorded beforehand: of adapters of q, k and v; of these and o; of all. Those
  // of a layer are all for x A^T alone, too, or none.
  static constexpr std::array kOffered = {SiteSet{Site::qkv}, SiteSet{Site::qkv, Site::o},
                                          SiteSet::all()};
  // Whether there are, or will be, recordings of what these layers offer.
  bool serves(std::span<const LayerHandoff> layers) const;
  // Pads a filled batch and returns true, if it is one for recordings.
  bool pad(StepBatch& batch) const;
  // What a step of so much is padded to; none: it is too large.
  std::optional<StepBounds> bounds(std::int32_t rows, std::int32_t sequences, std::int32_t max_rank,
                                   std::int32_t groups) const;
  // All that bounds() may say, with cold groups or without.
  std::vector<StepBounds> all_bounds(bool cold) const;

  // Launches the layer's recording, which is of what `enqueue` enqueues, or enqueues it.
  void run(Stream& stream, const LayerKind& kind, const StepInput& input,
           const std::function<void()>& enqueue);
  // The first failure of a recording since it was last asked for.
  Status take_status() { return std::exchange(status_, Status()); }

  // Records the layer, if that has not been done.
  Status record(Stream& stream, const LayerKind& kind, const StepInput& input,
                const std::function<void()>& enqueue);
  std::size_t num_recorded() const { return graphs_.size(); }

 private:
  Graph* find(const LayerKind& kind, const StepInput& input) const;

  std::vector<std::int32_t> rows_, ranks_;  // bounds, ascending
  std::int32_t max_positions_;
  When when_;
  std::map<LayerKind, RecordedGraph> graphs_;
  Status status_;
};

}  // namespace tandem
