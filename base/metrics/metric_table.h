// Metrics in Prometheus's format, each described by one row.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace tandem {

struct MetricRow {
  enum class Kind { counter, gauge, histogram } kind;
  const char* name;
  const char* help;
  std::span<const double> buckets = {};  // for a histogram
};

// Buckets for the seconds that choosing an engine takes.
inline constexpr double kDecisionBuckets[] = {1e-6, 2.5e-6, 5e-6,   1e-5, 2.5e-5,
                                              5e-5, 1e-4,   2.5e-4, 1e-3, 1e-2};

// Thread-safe. Rows that are counted, set or observed must belong to the table.
class MetricTable {
 public:
  using Labels = std::initializer_list<std::pair<const char*, std::string_view>>;

  explicit MetricTable(std::span<const MetricRow* const> rows);  // the rows outlive it
  ~MetricTable();

  void count(const MetricRow& counter, Labels labels);
  void set(const MetricRow& gauge, std::int64_t value);
  void observe(const MetricRow& histogram, double value);
  std::string text() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem
