#include "base/metrics/metric_table.h"

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <map>

namespace tandem {

struct MetricTable::Impl {
  prometheus::Registry registry;
  std::map<const MetricRow*, prometheus::Family<prometheus::Counter>*> counters;
  std::map<const MetricRow*, prometheus::Gauge*> gauges;
  std::map<const MetricRow*, prometheus::Histogram*> histograms;
};

MetricTable::MetricTable(std::span<const MetricRow* const> rows) : impl_(std::make_unique<Impl>()) {
  const auto add = [this](auto builder, const MetricRow& row) -> auto& {
    return builder.Name(row.name).Help(row.help).Register(impl_->registry);
  };
  for (const MetricRow* row : rows) {
    switch (row->kind) {
      case MetricRow::Kind::counter:
        impl_->counters[row] = &add(prometheus::BuildCounter(), *row);
        break;
      case MetricRow::Kind::gauge:
        impl_->gauges[row] = &add(prometheus::BuildGauge(), *row).Add({});
        break;
      case MetricRow::Kind::histogram:
        impl_->histograms[row] = &add(prometheus::BuildHistogram(), *row)
                                      .Add({}, prometheus::Histogram::BucketBoundaries(
                                                   row->buckets.begin(), row->buckets.end()));
        break;
    }
  }
}

MetricTable::~MetricTable() = default;

void MetricTable::count(const MetricRow& counter, Labels labels) {
  const prometheus::Labels owned(labels.begin(), labels.end());
  impl_->counters.at(&counter)->Add(owned).Increment();
}

void MetricTable::set(const MetricRow& gauge, std::int64_t value) {
  impl_->gauges.at(&gauge)->Set(static_cast<double>(value));
}

void MetricTable::observe(const MetricRow& histogram, double value) {
  impl_->histograms.at(&histogram)->Observe(value);
}

std::string MetricTable::text() const {
  return prometheus::TextSerializer().Serialize(impl_->registry.Collect());
}

}  // namespace tandem
