// A projection with adapters: the product of any weight, the deltas of the rows' adapters, and the
// rows that CPU workers compute.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "engine/loader/adapter.h"
#include "engine/model/layers/layer_step.h"
#include "gpu/weight.h"

namespace tandem {

// y = x w^T (+ bias), or y += of it, and for each row its adapter's delta: y += scale x A^T B^T of
// every module of the site. `outs` are the columns of y of the site's modules, in their order.
struct AdaptedLinear {
  std::int64_t layer;
  Site site;
  const TensorView& x;
  const Weight& w;
  const TensorView& bias;
  const TensorView& y;
  bool accumulate;
  std::initializer_list<TensorView> outs;
};

// Enqueues [offer] -> product -> deltas -> [accept]: while the device multiplies, workers compute.
void run(LayerStep& step, const AdaptedLinear& linear);

// Whether run() adds anything to the product.
bool has_deltas(const LayerStep& step, std::int64_t layer, Site site);

}  // namespace tandem
