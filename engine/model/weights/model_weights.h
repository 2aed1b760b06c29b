// The weights of a model, or of a shard of it, in device memory. Projections with the same input
// are fused.
#pragma once

#include "base/status.h"
#include "engine/loader/shard.h"
#include "engine/loader/weights.h"
#include "engine/model/spec/model_spec.h"
#include "engine/model/weights/weight_layout.h"
#include "engine/model/weights/weight_reading.h"
#include "gpu/device.h"

namespace tandem {

class ModelWeights {
 public:
  // Reads every tensor of the model, or the shard's part of it, into one device allocation.
  // Quantised matrices stay packed where the device computes their format and no group is cut;
  // everything else is converted to `dtype`. A tied head is the embedding itself, stored once.
  // `shape`: that of the whole model.
  static Result<ModelWeights> load(const ModelSpec& shape, Shard shard, const WeightSource& source,
                                   DType dtype, Device& device, const LoadProgress& progress);

  // The bytes that load() will allocate for the weights; without a source: if none is packed.
  static std::size_t bytes_needed(const ModelSpec& spec, Shard shard, DType dtype,
                                  const WeightSource& source, const Device& device);
  static std::size_t bytes_needed(const ModelSpec& spec, Shard shard, DType dtype);

  const Weight& embedding() const { return layout_.embedding; }  // [vocab of the shard, H]
  const Weight& head() const { return layout_.head; }            // [vocab of the shard, H]
  const TensorView& final_norm() const { return layout_.final_norm; }
  const LayerInputWeights& layer_inputs() const { return layout_.layer_inputs; }
  const LayerWeights& layer(std::int64_t index) const {
    return layout_.layers[static_cast<std::size_t>(index)];
  }
  std::size_t bytes() const { return buffer_.bytes(); }

 private:
  Buffer buffer_;
  WeightLayout layout_;  // without its pieces, which load() has read
};

}  // namespace tandem
