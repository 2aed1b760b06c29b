// Checks the shapes and dtypes of an operation's operands when it is enqueued, so that the stack
// trace shows the caller at fault. Contents (ids, positions, page tables, a step's handoff data)
// are checked where they are read.
#pragma once

#include "gpu/ops.h"

namespace tandem {

void check_args(const EmbedArgs& args);
void check_args(const RmsNormArgs& args);
void check_args(const SumSquaresArgs& args);
void check_args(const AddNormArgs& args);
void check_args(const GemmArgs& args);
void check_args(const RotaryAnglesArgs& args);
void check_args(const RopeAppendArgs& args);
void check_args(const AttentionArgs& args);
void check_args(const SwigluArgs& args);
void check_args(const GemmSwigluArgs& args);
void check_args(const ScaleLogitsArgs& args);
void check_args(const GatherRowsArgs& args);
void check_args(const LoraArgs& args);
void check_args(const OfferArgs& args);
void check_args(const AcceptArgs& args);
void check_args(const SampleArgs& args);
void check_args(const AllReduceArgs& args);
void check_args(const AllGatherArgs& args);

}  // namespace tandem
