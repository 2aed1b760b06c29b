// The picker's metrics; /metrics lists them in the order of kAll.
#pragma once

#include "base/metrics/metric_table.h"

namespace tandem::picker_metrics {

using Kind = MetricRow::Kind;

// Labels: engine, as its endpoint.
inline constexpr MetricRow kPicks{Kind::counter, "tandem_picker_picks_total",
                                  "Requests sent to an engine, by the first choice"};
// Labels: status.
inline constexpr MetricRow kRefusals{Kind::counter, "tandem_picker_refusals_total",
                                     "Requests that were answered at once, by HTTP status"};
// Labels: engine.
inline constexpr MetricRow kFailovers{
    Kind::counter, "tandem_picker_failovers_total",
    "Requests that another engine answered than the first choice, by that one"};
inline constexpr MetricRow kRunning{Kind::gauge, "tandem_picker_running",
                                    "Requests that were sent to an engine and are not over"};
inline constexpr MetricRow kUp{Kind::gauge, "tandem_picker_engines_up",
                               "Engines whose statistics come"};
inline constexpr MetricRow kEngines{Kind::gauge, "tandem_picker_engines",
                                    "Engines that there should be"};
inline constexpr MetricRow kDecision{Kind::histogram, "tandem_picker_decision_seconds",
                                     "What the choice of an engine takes", kDecisionBuckets};

inline constexpr const MetricRow* kAll[] = {&kPicks, &kRefusals, &kFailovers, &kRunning,
                                            &kUp,    &kEngines,  &kDecision};

}  // namespace tandem::picker_metrics
