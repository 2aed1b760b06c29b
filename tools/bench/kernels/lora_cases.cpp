#include "tools/bench/kernels/lora_cases.h"

#include <charconv>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

namespace tandem::kernels {
namespace {

std::vector<std::string> split(const std::string& line) {
  std::vector<std::string> fields;
  std::stringstream stream(line);
  for (std::string field; std::getline(stream, field, ',');) fields.push_back(field);
  return fields;
}

template <typename T>
bool parse(const std::string& text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

std::string LoraCase::name() const {
  return fmt::format("{}x{} r{} n{} {}", in, out, rank, tokens, popularity);
}

double LoraCase::adapter_bytes() const {
  return 2.0 * rank * (in + out) * adapters;
}

Result<std::vector<LoraCase>> read_lora_cases(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  if (!file || !std::getline(file, line)) {
    return error(StatusCode::not_found, "cannot read the peers' figures from '{}'", path.string());
  }
  std::map<std::string, std::size_t> column;
  for (const std::string& name : split(line)) column.emplace(name, column.size());
  for (const char* name : {"kind", "in", "out", "rank", "tokens", "popularity", "adapters", "bytes",
                           "best_us", "best_peer"}) {
    if (!column.contains(name)) return invalid("{}: no column '{}'", path.string(), name);
  }
  std::vector<LoraCase> cases;
  for (int number = 2; std::getline(file, line); ++number) {
    if (line.empty()) continue;
    std::vector<std::string> fields = split(line);
    fields.resize(std::max(fields.size(), column.size()));
    LoraCase read;
    read.kind = fields[column["kind"]];
    read.popularity = fields[column["popularity"]];
    read.best_peer = fields[column["best_peer"]];
    if (!parse(fields[column["in"]], read.in) || !parse(fields[column["out"]], read.out) ||
        !parse(fields[column["rank"]], read.rank) ||
        !parse(fields[column["tokens"]], read.tokens) ||
        !parse(fields[column["adapters"]], read.adapters) ||
        !parse(fields[column["bytes"]], read.bytes) ||
        !parse(fields[column["best_us"]], read.best_us) || read.adapters < 1 ||
        read.adapters > read.tokens || read.best_us <= 0) {
      return invalid("{}:{}: not a case: {}", path.string(), number, line);
    }
    cases.push_back(std::move(read));
  }
  if (cases.empty()) return invalid("{}: no cases", path.string());
  return cases;
}

std::vector<std::int32_t> share_rows(const LoraCase& c) {
  std::vector<double> weight;
  double total = 0;
  for (std::int32_t i = 0; i < c.adapters; ++i) {
    weight.push_back(c.popularity == "skewed" ? std::pow(i + 1, -1.5) : 1.0);
    total += weight.back();
  }
  // Each adapter gets one row; the rest is shared by weight, using cumulative sums to make the
  // total exact.
  std::vector<std::int32_t> rows;
  double sum = 0;
  std::int32_t given = 0;
  for (const double w : weight) {
    sum += w;
    const auto up_to =
        static_cast<std::int32_t>(std::lround((c.tokens - c.adapters) * sum / total));
    rows.push_back(1 + up_to - given);
    given = up_to;
  }
  return rows;
}

}  // namespace tandem::kernels
