// What an engine has learnt of the costs that it plans cold starts with, as people see it.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace tandem {

struct LearnedCosts {
  // How long something takes over what the figures of the profile, or those built in, say.
  struct Factor {
    std::string_view of;          // "link", "layers", or a kind of handover: "read_whole", ...
    double factor = 1;            // over all sizes: 2 is twice as long
    std::vector<double> by_size;  // ascending, each for about twice the size; empty: of all alike
    std::uint64_t lessons = 0;    // that are remembered of it; 0: the figures are believed
  };
  std::vector<Factor> factors;  // none: this engine hands nothing over
  std::uint64_t lessons = 0;    // since the start, remembered or not

  std::uint64_t situations = 0;  // kinds of cold starts of which it is known what plans came to
  // Steps that a plan promised to shorten, by what they were: some plans were seen to lose.
  std::uint64_t plans_followed = 0;
  std::uint64_t plans_given_up = 0;

  // Until the last of the CPU workers that sleep is awake, of late the mean; 0: nothing was seen.
  double worker_wake_s = 0;
};

}  // namespace tandem
