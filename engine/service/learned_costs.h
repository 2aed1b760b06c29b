// An engine's learned corrections of the costs that it plans cold starts with, for display.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace tandem {

struct LearnedCosts {
  // The ratio of observed to predicted durations; predictions are from the profile or built in.
  struct Factor {
    std::string_view of;          // "link", "layers", or a kind of handover: "read_whole", ...
    double factor = 1;            // over all sizes: 2 means twice as long
    std::vector<double> by_size;  // by ascending size, each about twice the last; empty: all alike
    std::uint64_t lessons = 0;    // remembered observations; 0: the prediction is used as it is
  };
  std::vector<Factor> factors;  // unset: this engine hands nothing over
  std::uint64_t lessons = 0;    // observations since the start, remembered or not

  std::uint64_t situations = 0;  // kinds of cold starts with known outcomes of plans
  // Steps that a plan was predicted to shorten: plans that were followed, and plans that were
  // dropped because such plans had been observed to lose.
  std::uint64_t plans_followed = 0;
  std::uint64_t plans_given_up = 0;

  // The recent mean time until the last sleeping CPU worker is awake; 0: no observation.
  double worker_wake_s = 0;
};

}  // namespace tandem
