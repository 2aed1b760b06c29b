// Which model each request of a run is for.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"

namespace tandem {

inline constexpr std::int32_t kBaseModel = -1;  // in place of an adapter's number

// `--lora-mix NAME=SHARE`, `--lora-rates NAME=REQUESTS_PER_S`.
using NamedNumbers = std::vector<std::pair<std::string, double>>;
// Refuses what has no '=', numbers that are not above zero, and a name that comes twice; `setting`
// is named.
Result<NamedNumbers> parse_named_numbers(const std::string& setting,
                                         const std::vector<std::string>& texts);

struct AdapterChoiceOptions {
  std::string assignment = "random";     // or round-robin: in the order of their names' list
  std::string distribution = "uniform";  // of random: uniform, distinct, skewed, azure
  double zipf_alpha = 1.5;               // of skewed: the i-th is asked for 1 / i^alpha as often
  NamedNumbers mix;                      // shares of adapters and "base"; instead of the above
};

// An adapter's number in `names` for each of `count` requests, or kBaseModel. No names: all are for
// the base. Distinct is an error if there are more requests than names.
Result<std::vector<std::int32_t>> choose_adapters(const AdapterChoiceOptions& options,
                                                  const std::vector<std::string>& names,
                                                  std::int64_t count, std::mt19937_64& random);

// The number of `name` in `names`; kBaseModel for "base". Anything else is an error.
Result<std::int32_t> lora_number(const std::string& name, const std::vector<std::string>& names);

}  // namespace tandem
