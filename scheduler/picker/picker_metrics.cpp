#include "scheduler/picker/picker_metrics.h"

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

namespace tandem {
namespace {

const prometheus::Histogram::BucketBoundaries kPickBuckets{1e-6, 2.5e-6, 5e-6,   1e-5, 2.5e-5,
                                                           5e-5, 1e-4,   2.5e-4, 1e-3, 1e-2};

}  // namespace

struct PickerMetrics::Families {
  prometheus::Registry registry;
  prometheus::Family<prometheus::Counter>& counters(const char* name, const char* help) {
    return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
  }
  prometheus::Gauge& gauge(const char* name, const char* help) {
    return prometheus::BuildGauge().Name(name).Help(help).Register(registry).Add({});
  }
  prometheus::Family<prometheus::Counter>& picks =
      counters("tandem_picker_picks_total", "Requests sent to an engine, by the first choice");
  prometheus::Family<prometheus::Counter>& refusals = counters(
      "tandem_picker_refusals_total", "Requests that were answered at once, by HTTP status");
  prometheus::Family<prometheus::Counter>& failovers =
      counters("tandem_picker_failovers_total",
               "Requests that another engine answered than the first choice, by that one");
  prometheus::Gauge& running =
      gauge("tandem_picker_running", "Requests that were sent to an engine and are not over");
  prometheus::Gauge& up = gauge("tandem_picker_engines_up", "Engines whose statistics come");
  prometheus::Gauge& all = gauge("tandem_picker_engines", "Engines that there should be");
  prometheus::Histogram& decision = prometheus::BuildHistogram()
                                        .Name("tandem_picker_decision_seconds")
                                        .Help("What the choice of an engine takes")
                                        .Register(registry)
                                        .Add({}, kPickBuckets);
};

PickerMetrics::PickerMetrics() : families_(std::make_unique<Families>()) {}
PickerMetrics::~PickerMetrics() = default;

void PickerMetrics::count_pick(const std::string& engine, int status) {
  if (engine.empty()) {
    families_->refusals.Add({{"status", std::to_string(status)}}).Increment();
  } else {
    families_->picks.Add({{"engine", engine}}).Increment();
  }
}

void PickerMetrics::count_failover(const std::string& engine) {
  families_->failovers.Add({{"engine", engine}}).Increment();
}

void PickerMetrics::observe_decision(double seconds) {
  families_->decision.Observe(seconds);
}

void PickerMetrics::set_running(std::int64_t requests) {
  families_->running.Set(static_cast<double>(requests));
}

void PickerMetrics::set_engines(std::int64_t up, std::int64_t all) {
  families_->up.Set(static_cast<double>(up));
  families_->all.Set(static_cast<double>(all));
}

std::string PickerMetrics::text() const {
  return prometheus::TextSerializer().Serialize(families_->registry.Collect());
}

}  // namespace tandem
