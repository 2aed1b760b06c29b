// The host twins of the device operations: plain loops over host memory with float accumulation.
// They take the same arguments, and check nothing.
#pragma once

#include "gpu/ops.h"

namespace tandem::reference {

void embed(const EmbedArgs& args);
void rms_norm(const RmsNormArgs& args);
void sum_squares(const SumSquaresArgs& args);
void add_norm(const AddNormArgs& args);
void gemm(const GemmArgs& args);
void resolve_tokens(const ResolveTokensArgs& args);
void rotary_angles(const RotaryAnglesArgs& args);
void rope_append(const RopeAppendArgs& args);
void attention(const AttentionArgs& args);
void swiglu(const SwigluArgs& args);
void scale_logits(const ScaleLogitsArgs& args);
void gather_rows(const GatherRowsArgs& args);
void lora(const LoraArgs& args);
void offer(const OfferArgs& args);
// Does not wait: a group without an answer has missed its deadline.
void accept(const AcceptArgs& args);

// Token probabilities after every step of SampleRow but the draw, over the row's whole vocabulary;
// 1 for a single token if the row is greedy. Sorts, so it is for small vocabularies.
void probabilities(const float* logits, int vocab, const SampleRow& row,
                   const std::int32_t* history, const TokenBias* biases, double* out);

// One element of a view as float, and back; indices past the view's rank are ignored.
float at(const TensorView& view, std::int64_t i, std::int64_t j = 0, std::int64_t k = 0);
void put(const TensorView& view, float value, std::int64_t i, std::int64_t j = 0,
         std::int64_t k = 0);

}  // namespace tandem::reference
