// Ratios of measured time to a CostModel's time, for layers, loads and handovers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "scheduler/planning/costs/factor_table.h"

namespace tandem {

// The kind of a handover: whether workers spend more time on reading weights or on multiplying, for
// whole deltas or for x A^T, and for one group of rows or several, which workers share differently.
enum class StallKind : std::uint8_t {
  read_whole,
  multiply_whole,
  read_xa,
  multiply_xa,
  read_whole_of_several,
  multiply_whole_of_several,
  read_xa_of_several,
  multiply_xa_of_several,
};
inline constexpr std::size_t kNumStallKinds = 8;
inline constexpr std::array<std::string_view, kNumStallKinds> kStallNames = {  // [StallKind]
    "read_whole",         "multiply_whole",        "read_xa",
    "multiply_xa",        "read_whole_of_several", "multiply_whole_of_several",
    "read_xa_of_several", "multiply_xa_of_several"};

struct CostFactors {
  static constexpr double kShortestStall_s = 16e-6;  // the unit of sizes in `stalls`

  std::array<FactorTable, kNumStallKinds> stalls;  // by the stall's length in the model
  FactorTable layers;                              // by the rows of the step
  double link = 1;                                 // seconds of a load

  double stall(StallKind kind, double seconds) const {
    return stalls[static_cast<std::size_t>(kind)].of(seconds / kShortestStall_s);
  }

  bool operator==(const CostFactors&) const = default;
};

}  // namespace tandem
