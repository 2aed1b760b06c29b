// The operations of gpu/ops.h on the CPU. Each runs to completion on the calling thread and the
// pool; arguments have been checked (check_args.h). Running out of memory throws.
#pragma once

#include <atomic>
#include <cstdint>

#include "gpu/host/context/context.h"
#include "gpu/ops.h"

namespace tandem::host {

void embed(OpContext& context, const EmbedArgs& args);
void rms_norm(OpContext& context, const RmsNormArgs& args);
void sum_squares(OpContext& context, const SumSquaresArgs& args);
void add_norm(OpContext& context, const AddNormArgs& args);
void gemm(OpContext& context, const GemmArgs& args);
void rotary_angles(OpContext& context, const RotaryAnglesArgs& args);
void rope_append(OpContext& context, const RopeAppendArgs& args);
void attention(OpContext& context, const AttentionArgs& args);
void swiglu(OpContext& context, const SwigluArgs& args);
void scale_logits(OpContext& context, const ScaleLogitsArgs& args);
void gather_rows(OpContext& context, const GatherRowsArgs& args);
void lora(OpContext& context, const LoraArgs& args);
void offer(OpContext& context, const OfferArgs& args);
void accept(OpContext& context, const AcceptArgs& args);
void sample(OpContext& context, const SampleArgs& args);
// These wait for the other ranks; they throw if one of them has failed or does not arrive.
void all_reduce(OpContext& context, const AllReduceArgs& args);
void all_gather(OpContext& context, const AllGatherArgs& args);

// Stream::set_flag and wait_flag. The wait occupies no thread of the pool, and throws if `stopping`
// is set before the word holds the value.
void set_flag(std::uint32_t* flag, std::uint32_t value, std::int32_t count);
void wait_flag(const std::uint32_t* flag, std::uint32_t value, const std::atomic<bool>& stopping);

}  // namespace tandem::host
