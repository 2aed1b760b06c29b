// From what `tandem profile` measured to what the planner computes with: pure arithmetic on the
// tables of a Profile.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "engine/profile/profile.h"

namespace tandem {

// The tables that are understood, by name, with their columns; seconds are medians.
//   link     bytes, seconds                        one copy and its ready word, of many in a row
//   prefill  tokens, seconds                       a step
//   decode   batch, context, seconds               a step
//   gemm     rows, seconds                         the four products of a layer, one after another
//   lora     batch, max_rank, sum_ranks, seconds   one operation on q, k and v of a layer
//   memory   cores, bytes_per_s                    reading
//   worker   workers, rank, rows, by_tokens, groups, gap_s, bytes, flops, seconds
//            one job of so many groups through the mailbox, gap_s after the one before
//   trip     rows, bytes, seconds                  offer, an echo, accept: bytes of x and y
//
// Sets profile.costs, profile.fits and profile.figures from the tables that are there; what is not
// there keeps the built-in figure and is named in the answer, a sentence each. Each figure is kept
// within what hardware can do; `certain` is false, with the reason, for one that had to be, and for
// one of a model that does not describe the samples. Spreads are 0: one set of tables shows none.
Result<std::vector<std::string>> fit_profile(Profile& profile);

// How well a fit with these coefficients describes, in words: "R2 0.962".
std::string fit_text(const ProfileFit& fit);

}  // namespace tandem
