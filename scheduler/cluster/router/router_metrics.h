// The router's metrics, in the order of kAll on /metrics.
#pragma once

#include "base/metrics/metric_table.h"

namespace tandem::router_metrics {

using Kind = MetricRow::Kind;

// Labels: path, method, status.
inline constexpr MetricRow kCalls{Kind::counter, "tandem_router_http_requests_total",
                                  "Answers of the router, by path, method and status"};
// engine: the address; empty if the request reached none. outcome: served, refused, failed, gone.
inline constexpr MetricRow kRequests{Kind::counter, "tandem_router_requests_total",
                                     "Requests that ended, by the last engine and outcome"};
// engine, kind.
inline constexpr MetricRow kFailovers{
    Kind::counter, "tandem_router_failovers_total",
    "Requests that an engine failed and another was asked for; kind continuation: the client had "
    "read of it"};
// engine, start.
inline constexpr MetricRow kMoves{
    Kind::counter, "tandem_router_moves_total",
    "Streams that were moved to free an engine, by that engine; start cold: their adapter was not "
    "on the other's device"};
inline constexpr MetricRow kWaiting{Kind::gauge, "tandem_router_queue",
                                    "Requests that wait before the engines"};
inline constexpr MetricRow kRunning{Kind::gauge, "tandem_router_running",
                                    "Requests that are with an engine"};
inline constexpr MetricRow kUp{Kind::gauge, "tandem_router_engines_up",
                               "Engines whose statistics come"};
inline constexpr MetricRow kEngines{Kind::gauge, "tandem_router_engines",
                                    "Engines that there should be"};
inline constexpr MetricRow kResting{Kind::gauge, "tandem_router_engines_resting",
                                    "Engines that get nothing new while the others have room"};
inline constexpr double kMoveBuckets[] = {0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1,
                                          2.5,  5,     10,   30,  120,  600};
inline constexpr MetricRow kMove{Kind::histogram, "tandem_router_move_seconds",
                                 "How long clients of moved streams were told nothing",
                                 kMoveBuckets};
inline constexpr MetricRow kDecision{Kind::histogram, "tandem_router_decision_seconds",
                                     "What the choice of an engine takes", kDecisionBuckets};

inline constexpr const MetricRow* kAll[] = {&kCalls,   &kRequests, &kFailovers, &kMoves,
                                            &kWaiting, &kRunning,  &kUp,        &kEngines,
                                            &kResting, &kMove,     &kDecision};

}  // namespace tandem::router_metrics
