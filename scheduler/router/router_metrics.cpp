#include "scheduler/router/router_metrics.h"

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

namespace tandem {
namespace {

const prometheus::Histogram::BucketBoundaries kDecisionBuckets{1e-6, 2.5e-6, 5e-6,   1e-5, 2.5e-5,
                                                               5e-5, 1e-4,   2.5e-4, 1e-3, 1e-2};
const prometheus::Histogram::BucketBoundaries kMoveBuckets{0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1,
                                                           2.5,  5,     10,   30,  120,  600};

}  // namespace

struct RouterMetrics::Families {
  prometheus::Registry registry;
  prometheus::Family<prometheus::Counter>& calls =
      prometheus::BuildCounter()
          .Name("tandem_router_http_requests_total")
          .Help("Answers of the router, by path, method and status")
          .Register(registry);
  prometheus::Family<prometheus::Counter>& requests =
      prometheus::BuildCounter()
          .Name("tandem_router_requests_total")
          .Help("Requests that ended, by the last engine and outcome")
          .Register(registry);
  prometheus::Family<prometheus::Counter>& failovers =
      prometheus::BuildCounter()
          .Name("tandem_router_failovers_total")
          .Help(
              "Requests that an engine failed and another was asked for; kind continuation: the "
              "client had read of it")
          .Register(registry);
  prometheus::Family<prometheus::Counter>& moves =
      prometheus::BuildCounter()
          .Name("tandem_router_moves_total")
          .Help(
              "Streams that were moved to free an engine, by that engine; start cold: their "
              "adapter was not on the other's device")
          .Register(registry);
  prometheus::Family<prometheus::Gauge>& gauges(const char* name, const char* help) {
    return prometheus::BuildGauge().Name(name).Help(help).Register(registry);
  }
  prometheus::Gauge& waiting =
      gauges("tandem_router_queue", "Requests that wait before the engines").Add({});
  prometheus::Gauge& running =
      gauges("tandem_router_running", "Requests that are with an engine").Add({});
  prometheus::Gauge& up =
      gauges("tandem_router_engines_up", "Engines whose statistics come").Add({});
  prometheus::Gauge& all = gauges("tandem_router_engines", "Engines that there should be").Add({});
  prometheus::Gauge& resting = gauges("tandem_router_engines_resting",
                                      "Engines that get nothing new while the others have room")
                                   .Add({});
  prometheus::Histogram& move = prometheus::BuildHistogram()
                                    .Name("tandem_router_move_seconds")
                                    .Help("How long clients of moved streams were told nothing")
                                    .Register(registry)
                                    .Add({}, kMoveBuckets);
  prometheus::Histogram& decision = prometheus::BuildHistogram()
                                        .Name("tandem_router_decision_seconds")
                                        .Help("What the choice of an engine takes")
                                        .Register(registry)
                                        .Add({}, kDecisionBuckets);
};

RouterMetrics::RouterMetrics() : families_(std::make_unique<Families>()) {}
RouterMetrics::~RouterMetrics() = default;

void RouterMetrics::count_call(std::string_view path, std::string_view method, int status) {
  // A client may invent methods, and each would be a series of its own.
  const bool known = method == "GET" || method == "POST" || method == "HEAD";
  families_->calls
      .Add({{"path", std::string(path)},
            {"method", known ? std::string(method) : "other"},
            {"status", std::to_string(status)}})
      .Increment();
}

void RouterMetrics::count_request(const std::string& engine, std::string_view outcome) {
  families_->requests.Add({{"engine", engine}, {"outcome", std::string(outcome)}}).Increment();
}

void RouterMetrics::count_failover(const std::string& engine, bool continued) {
  families_->failovers.Add({{"engine", engine}, {"kind", continued ? "continuation" : "retry"}})
      .Increment();
}

void RouterMetrics::count_move(const std::string& engine, bool cold) {
  families_->moves.Add({{"engine", engine}, {"start", cold ? "cold" : "warm"}}).Increment();
}

void RouterMetrics::observe_move(double seconds) {
  families_->move.Observe(seconds);
}

void RouterMetrics::set_resting(std::int64_t engines) {
  families_->resting.Set(static_cast<double>(engines));
}

void RouterMetrics::observe_decision(double seconds) {
  families_->decision.Observe(seconds);
}

void RouterMetrics::set_waiting(std::int64_t requests) {
  families_->waiting.Set(static_cast<double>(requests));
}

void RouterMetrics::set_running(std::int64_t requests) {
  families_->running.Set(static_cast<double>(requests));
}

void RouterMetrics::set_engines(std::int64_t up, std::int64_t all) {
  families_->up.Set(static_cast<double>(up));
  families_->all.Set(static_cast<double>(all));
}

std::string RouterMetrics::text() const {
  return prometheus::TextSerializer().Serialize(families_->registry.Collect());
}

}  // namespace tandem
