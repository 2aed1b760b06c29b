// Invocations of many functions per minute, in the format of the Azure Functions traces:
//
//   HashOwner,HashApp,HashFunction,Trigger,1,2,3, ... ,1440
//   3f1a...,9b00...,77aa...,http,0,4,12, ... ,0
//
// The first line lists the minutes, from 1 without gaps; each other line is a function.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace tandem {

struct AzureTrace {
  std::int32_t functions = 0;
  // By minute: (function, calls) of the functions with calls.
  std::vector<std::vector<std::pair<std::int32_t, std::int32_t>>> minutes;

  std::int64_t calls() const;
};

// Refuses any other format and names the line: missing or extra columns, counts that are not
// integers from 0 to 10,000,000, more than 2,000,000 functions or 20,160 minutes (two weeks), a
// trace without a call.
Result<AzureTrace> parse_azure_trace(std::string_view text);

// The text of a trace with Poisson counts: `calls_per_s` is divided by `weights`, whose sum is one.
std::string make_azure_trace(const std::vector<double>& weights, double calls_per_s,
                             std::int32_t minutes, std::uint64_t seed);

}  // namespace tandem
