#include "scheduler/cluster/simulator/azure_trace.h"

#include <fmt/format.h>

#include <iterator>
#include <optional>
#include <random>

#include "base/parse_number.h"

namespace tandem {
namespace {

constexpr std::int32_t kMaxCount = 10'000'000;
constexpr std::int32_t kMaxFunctions = 2'000'000;
constexpr std::size_t kMaxMinutes = 20'160;
constexpr std::string_view kNames[] = {"HashOwner", "HashApp", "HashFunction", "Trigger"};

// Removes the next line from `text` and returns it without its end.
std::string_view take_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  return line;
}

// Removes the next column from a line; empty: there is none left.
std::optional<std::string_view> take_column(std::optional<std::string_view>& line) {
  if (!line) return std::nullopt;
  const std::size_t end = line->find(',');
  const std::string_view column = line->substr(0, end);
  line = end == std::string_view::npos ? std::nullopt
                                       : std::optional<std::string_view>(line->substr(end + 1));
  return column;
}

Result<std::size_t> minutes_of(std::string_view line) {
  std::optional<std::string_view> rest = line;
  for (const std::string_view name : kNames) {
    const auto column = take_column(rest);
    if (column != name) {
      return invalid("line 1 must begin with HashOwner,HashApp,HashFunction,Trigger,1,2,...");
    }
  }
  std::size_t minutes = 0;
  while (const auto column = take_column(rest)) {
    const auto number = parse_number<std::int32_t>(*column);
    if (!number || *number != static_cast<std::int32_t>(minutes + 1)) {
      return invalid("line 1: minute {} stands where {} belongs", column->substr(0, 20),
                     minutes + 1);
    }
    if (++minutes > kMaxMinutes) return invalid("line 1: more than {} minutes", kMaxMinutes);
  }
  if (minutes == 0) return invalid("line 1 names no minute");
  return minutes;
}

}  // namespace

std::int64_t AzureTrace::calls() const {
  std::int64_t sum = 0;
  for (const auto& minute : minutes) {
    for (const auto& [function, calls] : minute) sum += calls;
  }
  return sum;
}

Result<AzureTrace> parse_azure_trace(std::string_view text) {
  TANDEM_ASSIGN(const std::size_t minutes, minutes_of(take_line(text)));
  AzureTrace trace;
  trace.minutes.resize(minutes);
  for (std::size_t number = 2; !text.empty(); ++number) {
    std::optional<std::string_view> line = take_line(text);
    if (trace.functions == kMaxFunctions) {
      return invalid("line {}: more than {} functions", number, kMaxFunctions);
    }
    for (std::size_t i = 0; i < std::size(kNames); ++i) {
      if (!take_column(line)) return invalid("line {} has {} columns", number, i);
    }
    for (std::size_t minute = 0; minute < minutes; ++minute) {
      const auto column = take_column(line);
      if (!column) return invalid("line {} ends before minute {}", number, minute + 1);
      const auto calls = parse_number<std::int32_t>(*column);
      if (!calls || *calls < 0 || *calls > kMaxCount) {
        return invalid("line {}, minute {}: '{}' is no number of calls from 0 to {}", number,
                       minute + 1, column->substr(0, 20), kMaxCount);
      }
      if (*calls > 0) trace.minutes[minute].emplace_back(trace.functions, *calls);
    }
    if (line) return invalid("line {} goes on after minute {}", number, minutes);
    ++trace.functions;
  }
  if (trace.calls() == 0) return invalid("no function is called in it");
  return trace;
}

std::string make_azure_trace(const std::vector<double>& weights, double calls_per_s,
                             std::int32_t minutes, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::string text = "HashOwner,HashApp,HashFunction,Trigger";
  for (std::int32_t minute = 1; minute <= minutes; ++minute) {
    fmt::format_to(std::back_inserter(text), ",{}", minute);
  }
  text += '\n';
  for (std::size_t i = 0; i < weights.size(); ++i) {
    fmt::format_to(std::back_inserter(text), "owner{0},app{0},function{0},http", i);
    std::poisson_distribution<std::int32_t> calls(weights[i] * calls_per_s * 60);
    for (std::int32_t minute = 0; minute < minutes; ++minute) {
      fmt::format_to(std::back_inserter(text), ",{}", calls(random));
    }
    text += '\n';
  }
  return text;
}

}  // namespace tandem
