// Computes the planner's costs from the measurements of `tandem profile`: pure arithmetic on the
// tables of a Profile.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "engine/profile/profile.h"

namespace tandem {

// The supported tables with their columns; seconds are medians.
//   link     bytes, seconds                        one copy and its ready word, in a row of many
//   prefill  tokens, seconds                       a step
//   decode   batch, context, seconds               a step
//   gemm     rows, seconds                         the four products of a layer, in sequence
//   lora     batch, max_rank, sum_ranks, seconds   one operation on q, k and v of a layer
//   memory   cores, bytes_per_s                    reading
//   worker   workers, rank, rows, by_tokens, groups, gap_s, bytes, flops, seconds
//            one job of this many groups through the mailbox, gap_s after the previous one
//   trip     rows, bytes, seconds                  offer, an echo, accept: bytes of x and y
//
// Sets profile.costs, profile.fits and profile.figures from the tables that are present. A figure
// without its table keeps the built-in value and is named in the result, one sentence each. Figures
// are limited to what hardware can do; `certain` is false, with the reason, for a limited figure
// and for one whose model does not describe the samples. Spreads are 0, because one set of tables
// shows none.
Result<std::vector<std::string>> fit_profile(Profile& profile);

// The quality of the fit as text: "R2 0.962".
std::string fit_text(const ProfileFit& fit);

}  // namespace tandem
