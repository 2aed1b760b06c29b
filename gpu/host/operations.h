// The operations of gpu/ops.h on the CPU. Each runs to its end on the calling thread and the pool;
// arguments have been checked (check_args.h). Memory that runs out throws.
#pragma once

#include "gpu/host/context.h"
#include "gpu/ops.h"

namespace tandem::host {

void embed(OpContext& context, const EmbedArgs& args);
void rms_norm(OpContext& context, const RmsNormArgs& args);
void gemm(OpContext& context, const GemmArgs& args);
void rope_append(OpContext& context, const RopeAppendArgs& args);
void attention(OpContext& context, const AttentionArgs& args);
void swiglu(OpContext& context, const SwigluArgs& args);
void gather_rows(OpContext& context, const GatherRowsArgs& args);
void lora(OpContext& context, const LoraArgs& args);
void sample(OpContext& context, const SampleArgs& args);

}  // namespace tandem::host
