// Chooses a model for each request of a run.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"

namespace tandem {

inline constexpr std::int32_t kBaseModel = -1;  // in place of an adapter's number

// Values of `--lora-mix NAME=SHARE` and `--lora-rates NAME=REQUESTS_PER_S`.
using NamedNumbers = std::vector<std::pair<std::string, double>>;
// Refuses a text without '=', a number that is not above zero, and a repeated name; the error names
// `setting`.
Result<NamedNumbers> parse_named_numbers(const std::string& setting,
                                         const std::vector<std::string>& texts);

struct AdapterChoiceOptions {
  std::string assignment = "random";     // or round-robin: in the order of the list of names
  std::string distribution = "uniform";  // if random: uniform, distinct, skewed, azure
  double zipf_alpha = 1.5;               // if skewed: the i-th has a weight of 1 / i^alpha
  NamedNumbers mix;                      // shares of adapters and of "base"; replaces the above
};

// Returns for each of `count` requests an adapter's index in `names`, or kBaseModel. Without names
// all are for the base. It is an error if `distinct` has fewer names than requests.
Result<std::vector<std::int32_t>> choose_adapters(const AdapterChoiceOptions& options,
                                                  const std::vector<std::string>& names,
                                                  std::int64_t count, std::mt19937_64& random);

// Returns the index of `name` in `names`; kBaseModel for "base". Another name is an error.
Result<std::int32_t> lora_number(const std::string& name, const std::vector<std::string>& names);

}  // namespace tandem
