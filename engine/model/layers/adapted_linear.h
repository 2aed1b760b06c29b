// A projection with adapters: the product with the weight, the deltas of the rows' adapters, and
// the rows that CPU workers compute.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "engine/loader/adapter.h"
#include "engine/model/layers/layer_step.h"
#include "engine/model/weights/weight_stack.h"

namespace tandem {

// Computes y = x w^T (+ bias), or adds it to y, with weight and bias of each row's adapter in place
// of those that it replaces, and adds the adapter's delta, scale x A^T B^T, for every module of the
// site. `outs`: the columns of y of each of the site's modules, in
// order.
struct AdaptedLinear {
  std::int64_t layer;
  Site site;
  const TensorView& x;
  const WeightStack& w;
  const TensorView& bias;
  const TensorView& y;
  bool accumulate;
  std::initializer_list<TensorView> outs;
};

// Enqueues [offer] -> product -> [what replaces it] -> deltas -> [accept], so that workers compute
// during the product.
void run(LayerStep& step, const AdaptedLinear& linear);

// True if run() changes the product.
bool changes(const LayerStep& step, std::int64_t layer, Site site);
// True if run() puts rows in the product's place. It must not be one that accumulates then.
bool replaces(const LayerStep& step, Site site);

// True if an adapter of the step may have a module at this site, which takes no offers.
bool adapts(const LayerStep& step, Site site);

// The places of the adapters' modules of a site in a layer, without outputs.
LoraModules modules_at(const LayerStep& step, std::int64_t layer, Site site);

// Replaces the residual's rows, which hold the base's embedding, by those of whole embeddings and
// those by token, and adds the deltas. `scale`: multiplies an embedding.
void adapt_embedding(LayerStep& step, float scale);

// Replaces `logits`, [num_logits, vocab or more] f32, by those of whole heads and of rows by token,
// and adds the deltas. x: the normed rows that have logits.
void adapt_head(LayerStep& step, const TensorView& x, const TensorView& logits);

}  // namespace tandem
