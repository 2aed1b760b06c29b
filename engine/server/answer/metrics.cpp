#include "engine/server/answer/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/histogram.h>
#include <prometheus/metric_family.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <new>
#include <optional>
#include <string_view>
#include <type_traits>
#include <vector>

#include "engine/server/messages/response_building.h"
#include "engine/server/options/server_options.h"
#include "engine/service/engine_figures.h"

namespace tandem {
namespace {

using prometheus::ClientMetric;
using prometheus::Histogram;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;

// A quantile above the largest bound is reported as that bound, so the bounds cover the longest
// plausible waits, prompts and answers.
const Histogram::BucketBoundaries kTtftBuckets{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                               0.25,  0.5,    1,     2.5,  5,     10,   30,
                                               60,    120,    300,   600,  1200,  2400};
const Histogram::BucketBoundaries kTpotBuckets{0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075,
                                               0.1,   0.2,    0.5,   1,    2.5,  10,   60};
const Histogram::BucketBoundaries kE2eBuckets{0.05, 0.1, 0.25, 0.5, 1,   2.5,  5,    10,  20,
                                              30,   60,  120,  300, 600, 1200, 2400, 7200};

const Histogram::BucketBoundaries kTokenBuckets{
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 1e5, 2e5, 5e5, 1e6};

class Families {
 public:
  explicit Families(Labels common) : common_(std::move(common)) {}

  // Adds one value. Consecutive calls with the same name form one metric family.
  void add(const std::string& name, const std::string& help, MetricType type, double value,
           const Labels& labels = {}) {
    if (all_.empty() || all_.back().name != name) all_.push_back({name, help, type, {}});
    ClientMetric metric;
    metric.label = common_;
    metric.label.insert(metric.label.end(), labels.begin(), labels.end());
    if (type == MetricType::Counter) {
      metric.counter.value = value;
    } else {
      metric.gauge.value = value;
    }
    all_.back().metric.push_back(std::move(metric));
  }
  void gauge(const std::string& name, const std::string& help, double value,
             const Labels& labels = {}) {
    add(name, help, MetricType::Gauge, value, labels);
  }
  void counter(const std::string& name, const std::string& help, double value,
               const Labels& labels = {}) {
    add(name, help, MetricType::Counter, value, labels);
  }
  // Parses NAME or NAME{key="value",...}; values contain no quotes. A counter's name ends in
  // "_total".
  void add_series(std::string_view series, const std::string& help, double value) {
    const std::size_t brace = series.find('{');
    const std::string name(series.substr(0, brace));
    Labels labels;
    for (std::size_t at = brace; at != std::string_view::npos && series[at] != '}';) {
      const std::size_t equals = series.find('=', at);
      const std::size_t end = series.find('"', equals + 2);
      labels.push_back({std::string(series.substr(at + 1, equals - at - 1)),
                        std::string(series.substr(equals + 2, end - equals - 2))});
      at = end + 1;  // ',' or '}'
    }
    add(name, help, name.ends_with("_total") ? MetricType::Counter : MetricType::Gauge, value,
        labels);
  }
  template <std::size_t N>
  void histogram(const std::string& name, const std::string& help,
                 const std::array<double, N>& bounds, const CountedValues<N>& values) {
    ClientMetric metric;
    metric.label = common_;
    std::uint64_t count = 0;
    for (std::size_t i = 0; i <= N; ++i) {
      count += values.counts[i];
      const double bound = i < N ? bounds[i] : std::numeric_limits<double>::infinity();
      metric.histogram.bucket.push_back({count, bound});
    }
    metric.histogram.sample_count = count;
    metric.histogram.sample_sum = values.sum;
    all_.push_back({name, help, MetricType::Histogram, {std::move(metric)}});
  }
  std::vector<MetricFamily> take() { return std::move(all_); }

 private:
  Labels common_;
  std::vector<MetricFamily> all_;
};

void add_engine(const EngineStats& stats, Families& families) {
  each_figure(stats, [&](const Figure& figure, const auto& value) {
    if (figure.series.empty()) return;
    if constexpr (std::is_arithmetic_v<std::decay_t<decltype(value)>>) {
      families.add_series(figure.series, figure.help, static_cast<double>(value));
    } else {
      families.histogram(figure.series, figure.help, value.bounds, value.values);
    }
  });
}

void add_learned(const LearnedCosts& learned, Families& families) {
  for (const LearnedCosts::Factor& factor : learned.factors) {
    families.gauge("tandem_handoff_cost_ratio",
                   "What the link, layers and handovers take over what the figures say",
                   factor.factor, {{"of", std::string(factor.of)}});
  }
  for (const LearnedCosts::Factor& factor : learned.factors) {
    families.gauge("tandem_handoff_cost_lessons",
                   "Measurements that such a ratio comes from; of none it is 1",
                   static_cast<double>(factor.lessons), {{"of", std::string(factor.of)}});
  }
  families.counter("tandem_handoff_lessons_total",
                   "Measurements that costs were corrected by, since the start",
                   static_cast<double>(learned.lessons));
  families.gauge("tandem_handoff_plan_situations",
                 "Kinds of cold starts of which it is known what plans came to",
                 static_cast<double>(learned.situations));
  const auto plans = [&](const char* outcome, std::uint64_t count) {
    families.counter("tandem_handoff_plans_total",
                     "Steps that a plan promised to shorten, by whether it was followed or given "
                     "up because such plans were seen to lose",
                     static_cast<double>(count), {{"outcome", outcome}});
  };
  plans("followed", learned.plans_followed);
  plans("given_up", learned.plans_given_up);
  families.gauge(
      "tandem_handoff_worker_wake_seconds",
      "Until the last CPU worker that slept is awake, of late the mean; 0: none was seen",
      learned.worker_wake_s);
}

// The mean time per token after the first; nothing if there was only one.
std::optional<double> seconds_per_token(const GenerationStats& stats, std::int32_t n) {
  const double tokens_each = static_cast<double>(stats.completion_tokens) / n;
  if (tokens_each <= 1) return std::nullopt;
  return (stats.total_s - stats.ttft_s) / (tokens_each - 1);
}

// Level names as in the metrics proposed to vLLM.
const char* level_of(const AdapterInfo& adapter) {
  if (adapter.tier == "device") return "gpu";
  return adapter.tier == "disk" ? "disk" : "cpu";
}

void add_adapters(const std::vector<AdapterInfo>& adapters, std::int32_t max_loras,
                  Families& families) {
  std::map<std::string, int> tiers{{"disk", 0}, {"host", 0}, {"loading", 0}, {"device", 0}};
  std::string running;
  std::string waiting;
  double hits = 0;
  double cold_starts = 0;
  const auto append = [](std::string& list, const std::string& name) {
    if (!list.empty()) list += ',';
    list += name;
  };
  for (const AdapterInfo& adapter : adapters) {
    ++tiers[adapter.tier];
    // A loaded adapter counts as running, because the Gateway API's endpoint pickers use this list
    // to find where an adapter is.
    if (adapter.running > 0 || adapter.tier == "device") append(running, adapter.name);
    if (adapter.waiting > 0) append(waiting, adapter.name);
    hits += static_cast<double>(adapter.hits);
    cold_starts += static_cast<double>(adapter.cold_starts);
  }
  // The format that its readers expect: the value is the time of the scrape, the data are in the
  // labels.
  families.gauge("vllm:lora_requests_info", "Adapters with running and waiting requests",
                 static_cast<double>(unix_seconds()),
                 {{"max_lora", std::to_string(max_loras)},
                  {"running_lora_adapters", running},
                  {"waiting_lora_adapters", waiting}});
  for (const AdapterInfo& adapter : adapters) {
    families.gauge("vllm:lora_adapter_loaded", "Adapters by where their weights are: 1 each", 1,
                   {{"adapter_name", adapter.name},
                    {"level", level_of(adapter)},
                    {"pinned", adapter.pinned ? "true" : "false"},
                    {"rank", std::to_string(adapter.rank)}});
  }
  for (const auto& [tier, count] : tiers) {
    families.gauge("tandem_adapters", "Adapters by where their weights are", count,
                   {{"tier", tier}});
  }
  families.counter("tandem_adapter_hits_total", "Requests that found their adapter on the device",
                   hits);
  families.counter("tandem_cold_starts_total", "Requests that did not", cold_starts);
}

}  // namespace

struct ServerMetrics::Impl {
  LatencyHistory latencies;
  prometheus::Registry registry;
  Histogram& ttft = histogram("vllm:time_to_first_token_seconds",
                              "From a request's arrival to its first token", kTtftBuckets);
  Histogram& tpot = histogram("vllm:time_per_output_token_seconds",
                              "Per token after the first, by request", kTpotBuckets);
  Histogram& e2e = histogram("vllm:e2e_request_latency_seconds",
                             "From a request's arrival to its last token", kE2eBuckets);
  Histogram& tpot_of_request =
      histogram("vllm:request_time_per_output_token_seconds",
                "The newer name of time_per_output_token_seconds", kTpotBuckets);
  Histogram& prompt_tokens =
      histogram("vllm:request_prompt_tokens", "Prompt tokens of a request", kTokenBuckets);
  Histogram& generation_tokens =
      histogram("vllm:request_generation_tokens", "Tokens generated for a request", kTokenBuckets);
  Histogram& prefill = histogram("vllm:request_prefill_time_seconds",
                                 "From a request's first step to its first token", kTtftBuckets);
  Histogram& decode = histogram("vllm:request_decode_time_seconds",
                                "From a request's first token to its last", kE2eBuckets);
  Histogram& inference = histogram("vllm:request_inference_time_seconds",
                                   "From a request's first step to its last token", kE2eBuckets);
  Histogram& queue = histogram("vllm:request_queue_time_seconds",
                               "From a request's arrival to its first step", kTtftBuckets);
  prometheus::Family<prometheus::Counter>& finished = prometheus::BuildCounter()
                                                          .Name("vllm:request_success_total")
                                                          .Help("Answers by how they ended")
                                                          .Register(registry);
  prometheus::Family<prometheus::Counter>& objectives =
      prometheus::BuildCounter()
          .Name("tandem_slo_requests_total")
          .Help("Requests with an objective, by what it was of and whether it was met")
          .Register(registry);
  prometheus::Family<prometheus::Counter>& requests = prometheus::BuildCounter()
                                                          .Name("tandem_http_requests_total")
                                                          .Help("HTTP requests answered")
                                                          .Register(registry);

  Histogram& histogram(const char* name, const char* help,
                       const Histogram::BucketBoundaries& buckets) {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add({}, buckets);
  }
};

ServerMetrics::ServerMetrics() : impl_(std::make_unique<Impl>()) {}
ServerMetrics::~ServerMetrics() = default;

void ServerMetrics::observe(const GenerationStats& stats, std::int32_t n) {
  if (stats.completion_tokens > 0) {
    impl_->ttft.Observe(stats.ttft_s);
    impl_->prefill.Observe(std::max(0.0, stats.ttft_s - stats.queue_s));
    impl_->decode.Observe(std::max(0.0, stats.total_s - stats.ttft_s));
  }
  impl_->inference.Observe(std::max(0.0, stats.total_s - stats.queue_s));
  impl_->prompt_tokens.Observe(stats.prompt_tokens);
  impl_->generation_tokens.Observe(stats.completion_tokens);
  impl_->queue.Observe(stats.queue_s);
  impl_->e2e.Observe(stats.total_s);
  if (const auto per_token = seconds_per_token(stats, n)) {
    impl_->tpot.Observe(*per_token);
    impl_->tpot_of_request.Observe(*per_token);
  }
  if (stats.completion_tokens > 0) {
    impl_->latencies.add(SteadyClock().now(), stats.ttft_s, seconds_per_token(stats, n));
  }
}

const LatencyHistory& ServerMetrics::latencies() const {
  return impl_->latencies;
}

void ServerMetrics::observe_objectives(const GenerationRequest& request,
                                       const GenerationStats& stats) noexcept {
  const auto count = [this](const char* objective, bool met) {
    impl_->objectives.Add({{"objective", objective}, {"met", met ? "true" : "false"}}).Increment();
  };
  try {
    if (request.ttft_deadline_s > 0) {
      count("ttft", stats.completion_tokens > 0 && stats.ttft_s <= request.ttft_deadline_s);
    }
    const auto per_token = seconds_per_token(stats, request.n);
    if (request.tpot_deadline_s > 0 && per_token) {
      count("tpot", *per_token <= request.tpot_deadline_s);
    }
  } catch (const std::bad_alloc&) {
  }
}

void ServerMetrics::count_finish(const char* reason) noexcept {
  try {
    impl_->finished.Add({{"finished_reason", reason}}).Increment();
  } catch (const std::bad_alloc&) {
  }
}

void ServerMetrics::count_request(const char* path, const std::string& method,
                                  int status) noexcept {
  try {
    impl_->requests.Add({{"path", path}, {"method", method}, {"status", std::to_string(status)}})
        .Increment();
  } catch (const std::bad_alloc&) {
  }
}

std::string ServerMetrics::text(const ServedModel* model) const {
  std::vector<MetricFamily> all = impl_->registry.Collect();
  if (model != nullptr) {
    // These series were started before the model's name was known.
    for (MetricFamily& family : all) {
      for (ClientMetric& metric : family.metric) {
        metric.label.insert(metric.label.begin(), {"model_name", model->name});
      }
    }
    Families families({{"model_name", model->name}});
    add_engine(model->service->stats(), families);
    add_learned(model->service->learned_costs(), families);
    add_adapters(model->service->adapters(), model->max_loras, families);
    const auto refused = std::ranges::count_if(
        model->refused_adapters,
        [&](const RefusedAdapter& each) { return !model->service->has_adapter(each.name); });
    families.gauge("tandem_adapters_refused",
                   "Folders of --adapters that are not served, as they cannot be used",
                   static_cast<double>(refused));
    for (MetricFamily& family : families.take()) all.push_back(std::move(family));
  }
  return prometheus::TextSerializer().Serialize(all);
}

}  // namespace tandem
