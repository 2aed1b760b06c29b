// The load generator with servers of known delays and faults.
#include "tools/bench/serve/load_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>

#include "base/http/http_server.h"
#include "base/log/log.h"
#include "tests/support/sanitized.h"
#include "tests/support/test_seed.h"
#include "tools/bench/serve/results/load_metrics.h"
#include "tools/bench/serve/stub_server.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;

const PromptMaker kMaker(1000);

LoadPlan plan_of(std::int64_t count, const ArrivalOptions& arrivals, std::int32_t tokens,
                 std::vector<std::string> adapters = {}) {
  DatasetOptions data;
  data.input_len = 4;
  data.output_len = tokens;
  LoadPlanOptions options;
  options.num_prompts = count;
  options.arrivals = arrivals;
  options.adapters = std::move(adapters);
  options.choice.assignment = "round-robin";
  auto plan = make_load_plan(options, *make_dataset(data, count, nullptr));
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  return plan.ok() ? std::move(*plan) : LoadPlan{};
}

LoadOutcome run(const LoadPlan& plan, int port, LoadRunOptions options = {}) {
  options.model = "stub";
  LoadTarget target;
  target.address = {"127.0.0.1", port};
  return run_load(plan, kMaker, target, options, [](const LoadState&) { return true; });
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

// Median of a value that the stub reports for each answer.
template <typename Of>
double median_ms(const std::vector<StubServed>& served, const Of& of) {
  std::vector<double> values;
  for (const StubServed& one : served) values.push_back(std::invoke(of, one) * 1e3);
  return median(std::move(values));
}

class LoadRun : public ::testing::Test {
 protected:
  void SetUp() override { log::set_level(log::Level::off); }
};

TEST_F(LoadRun, ReportsAKnownDistributionOfDelays) {
  constexpr std::int32_t kTokens = 12;
  std::mt19937_64 random(test_seed());
  std::gamma_distribution<double> ttft_s(4, 0.1);
  std::vector<double> asked_ms;
  StubServer stub([&](std::int64_t) {
    const double delay_s = ttft_s(random);
    asked_ms.push_back(delay_s * 1e3);
    return StubDelays{delay_s, 0.012};
  });
  ASSERT_TRUE(stub.start().ok());
  ArrivalOptions arrivals;
  // A rate that one slow core can send.
  arrivals.requests_per_s = sanitized() ? 50 : 200;
  const std::int64_t requests = sanitized() ? 100 : 300;
  const LoadOutcome outcome = run(plan_of(requests, arrivals, kTokens), stub.port());
  const LoadFigures figures = figures_of(outcome.records, outcome.duration_s, {}, CountFrom::sent);
  ASSERT_EQ(figures.completed, requests) << figures.errors.begin()->first;
  EXPECT_EQ(figures.output_tokens, requests * kTokens);
  const auto served = stub.served();
  ASSERT_EQ(static_cast<std::int64_t>(served.size()), requests);
  // Compared with the stub's actual times, not the planned ones, because a busy machine delays it,
  // too.
  const double ttft_ms = median_ms(served, &StubServed::ttft_s);
  const double e2el_ms = median_ms(served, &StubServed::e2el_s);
  const double tpot_ms = median_ms(
      served, [](const StubServed& one) { return (one.e2el_s - one.ttft_s) / (kTokens - 1); });
  // The tolerance is 2 %, and the time outside the stub's clock for reading a request and an
  // answer's event, during which two threads wait for a core. The stub's own delay shows how long
  // such waits are on this machine; the millisecond is for the kernel.
  const double wait_ms = 1 + 2 * std::max(0.0, ttft_ms - median(asked_ms));
  EXPECT_NEAR(figures.ttft_ms.median(), ttft_ms, 0.02 * ttft_ms + wait_ms);
  EXPECT_NEAR(figures.e2el_ms.median(), e2el_ms, 0.02 * e2el_ms + wait_ms);
  EXPECT_NEAR(figures.tpot_ms.median(), tpot_ms, 0.02 * tpot_ms + wait_ms / (kTokens - 1));
  EXPECT_NEAR(figures.itl_ms.mean(), figures.tpot_ms.mean(), 0.02 * figures.tpot_ms.mean());
  EXPECT_NEAR(figures.request_throughput, static_cast<double>(requests) / outcome.duration_s, 1e-9);
}

TEST_F(LoadRun, TellsTheDelayOfUsersWhenTheServerIsTooSlow) {
  // One request runs at a time for 20 ms, so 50 per second are served, but 200 arrive. The n-th is
  // due at 5 n ms and begins at 20 n ms.
  StubServer stub([](std::int64_t) { return StubDelays{0.02, 0}; });
  ASSERT_TRUE(stub.start().ok());
  ArrivalOptions arrivals;
  arrivals.requests_per_s = 200;
  arrivals.burstiness = 1e6;
  LoadRunOptions options;
  options.max_concurrency = 1;
  const LoadOutcome outcome = run(plan_of(40, arrivals, 2), stub.port(), options);
  const LoadFigures users = figures_of(outcome.records, outcome.duration_s, {}, CountFrom::due);
  const LoadFigures sent = figures_of(outcome.records, outcome.duration_s, {}, CountFrom::sent);
  ASSERT_EQ(users.completed, 40);
  EXPECT_GT(users.ttft_ms.percentile(100), 40 * 20 - 40 * 5);
  EXPECT_GT(users.ttft_ms.mean(), 20 * (20 - 5));
  EXPECT_LT(sent.ttft_ms.median(), users.ttft_ms.median() / 4);
  EXPECT_EQ(users.most_concurrent, 1);
}

TEST_F(LoadRun, SendsOnTimeWhateverBecomesOfThoseBefore) {
  StubServer stub([](std::int64_t) { return StubDelays{1.0, 0}; });
  ASSERT_TRUE(stub.start().ok());
  ArrivalOptions arrivals;
  arrivals.requests_per_s = 500;
  const LoadOutcome outcome = run(plan_of(100, arrivals, 1), stub.port());
  const LoadFigures figures = figures_of(outcome.records, outcome.duration_s, {}, CountFrom::due);
  EXPECT_EQ(figures.completed, 100);
  EXPECT_GT(figures.most_concurrent, 90);  // all arrive within 0.2 s
}

TEST_F(LoadRun, ALimitWithoutARateMakesRequestsDueWhenAPlaceIsFree) {
  StubServer stub([](std::int64_t) { return StubDelays{0.02, 0}; });
  ASSERT_TRUE(stub.start().ok());
  LoadRunOptions options;
  options.max_concurrency = 4;
  const LoadOutcome outcome = run(plan_of(100, {}, 2), stub.port(), options);
  const LoadFigures figures = figures_of(outcome.records, outcome.duration_s, {}, CountFrom::due);
  EXPECT_EQ(figures.completed, 100);
  EXPECT_EQ(figures.most_concurrent, 4);
  EXPECT_GT(outcome.duration_s, 25 * 0.02);
  // Counted from the run's start it would be half of that.
  EXPECT_LT(figures.ttft_ms.median(), outcome.duration_s * 1e3 / 4);
}

TEST_F(LoadRun, ABurstWaitsForTheOneBeforeAndThePause) {
  StubServer stub([](std::int64_t) { return StubDelays{0.01, 0}; });
  ASSERT_TRUE(stub.start().ok());
  ArrivalOptions arrivals;
  arrivals.burst_size = 4;
  LoadRunOptions options;
  options.burst_pause_s = 0.05;
  const LoadOutcome outcome = run(plan_of(12, arrivals, 1), stub.port(), options);
  for (std::size_t i = 0; i < 12; ++i) {
    ASSERT_EQ(outcome.records[i].outcome, RequestOutcome::ok);
    EXPECT_EQ(outcome.records[i].due_s, outcome.records[i / 4 * 4].due_s);
    if (i < 4) continue;
    for (std::size_t before = i / 4 * 4 - 4; before < i / 4 * 4; ++before) {
      EXPECT_GE(outcome.records[i].due_s, outcome.records[before].end_s + 0.049);
    }
  }
}

TEST_F(LoadRun, MarksTheFirstRequestForAnAdapter) {
  StubServer stub([](std::int64_t) { return StubDelays{}; });
  ASSERT_TRUE(stub.start().ok());
  const LoadOutcome outcome = run(plan_of(6, {}, 1, {"a", "b", "c"}), stub.port());
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(outcome.records[i].adapter, static_cast<std::int32_t>(i % 3));
    EXPECT_EQ(outcome.records[i].first_touch, i < 3);
  }
}

TEST_F(LoadRun, StopsWhenItIsToldToAndKeepsWhatItHas) {
  StubServer stub([](std::int64_t n) { return StubDelays{n < 5 ? 0.0 : 100.0, 0}; });
  ASSERT_TRUE(stub.start().ok());
  LoadRunOptions options;
  options.model = "stub";
  options.max_concurrency = 8;
  LoadTarget target;
  target.address = {"127.0.0.1", stub.port()};
  const LoadPlan plan = plan_of(50, {}, 2);
  const LoadOutcome outcome = run_load(plan, kMaker, target, options, [](const LoadState& state) {
    return state.completed < 5 || state.elapsed_s < 0.2;
  });
  EXPECT_TRUE(outcome.stopped);
  const LoadFigures figures = figures_of(outcome.records, outcome.duration_s, {}, CountFrom::due);
  EXPECT_EQ(figures.completed, 5);
  EXPECT_EQ(figures.interrupted, 8);
  EXPECT_EQ(figures.unsent, 37);
  EXPECT_LT(outcome.duration_s, 30);
}

// A stream that sends some bytes and then stops, breaks or ends.
class SaysAndEnds final : public BodySource {
 public:
  SaysAndEnds(std::string text, Pull end) : text_(std::move(text)), end_(end) {}
  void on_ready(std::function<void()>) override {}
  Pull pull(std::string& out) override {
    out += std::exchange(text_, {});
    return end_;
  }

 private:
  std::string text_;
  Pull end_;
};

// The behaviour depends on the model's name.
class FaultyHandler final : public HttpHandler {
 public:
  std::optional<HttpResponse> screen(const HttpRequest&) override { return std::nullopt; }
  HttpResponse handle(const HttpRequest& request) override {
    constexpr const char* kToken = "data: {\"choices\":[{\"text\":\"a\"}]}\n\n";
    constexpr const char* kEnd =
        "data: {\"choices\":[{\"text\":\"b\",\"finish_reason\":\"length\"}]}\n\ndata: [DONE]\n\n";
    const auto asks_for = [&](const char* model) {
      return request.body.find(std::string("\"") + model + "\"") != std::string::npos;
    };
    HttpResponse response;
    response.content_type = "text/event-stream";
    using Pull = BodySource::Pull;
    const auto stream = [&](std::string text, Pull end) {
      response.source = std::make_unique<SaysAndEnds>(std::move(text), end);
    };
    if (asks_for("refuses")) {
      response.status = 503;
      response.body = R"({"error":{"message":"no room"}})";
    } else if (asks_for("hangs")) {
      stream(kToken, Pull::wait);
    } else if (asks_for("breaks")) {
      stream(kToken, Pull::broken);
    } else if (asks_for("garbles")) {
      stream("data: {\"choi\n\n", Pull::end);
    } else if (asks_for("stops-short")) {
      stream(kToken, Pull::end);
    } else if (asks_for("says-nothing")) {
      stream("data: [DONE]\n\n", Pull::end);
    } else if (asks_for("fails-midway")) {
      stream(std::string(kToken) + "data: {\"error\":{\"message\":\"lost the device\"}}\n\n",
             Pull::end);
    } else {
      stream(std::string(kToken) + kEnd, Pull::end);
    }
    return response;
  }
  HttpResponse refuse(int status, std::string_view) override {
    HttpResponse response;
    response.status = status;
    return response;
  }
};

TEST_F(LoadRun, CountsEveryWayToFailAndGoesOn) {
  FaultyHandler handler;
  HttpOptions server_options;
  server_options.host = "127.0.0.1";
  server_options.max_body_bytes = 1U << 20;
  server_options.max_connections = 100;
  server_options.keep_alive = std::chrono::seconds(30);
  server_options.client_timeout = std::chrono::seconds(30);
  HttpServer server(server_options, handler);
  ASSERT_TRUE(server.start().ok());
  const std::vector<std::string> models = {"refuses",      "fine",        "hangs",
                                           "breaks",       "garbles",     "stops-short",
                                           "says-nothing", "fails-midway"};
  LoadRunOptions options;
  options.request_timeout_s = 1.5;
  const LoadOutcome outcome = run(plan_of(16, {}, 2, models), server.port(), options);
  std::map<std::string, std::string> reasons;
  for (const RequestRecord& record : outcome.records) {
    const std::string& model = models[static_cast<std::size_t>(record.adapter)];
    EXPECT_EQ(record.outcome, model == "fine" ? RequestOutcome::ok : RequestOutcome::failed)
        << model;
    reasons[model] = record.error;
  }
  EXPECT_EQ(reasons["refuses"], "HTTP 503: no room");
  EXPECT_THAT(reasons["hangs"], HasSubstr("--request-timeout"));
  EXPECT_THAT(reasons["breaks"], HasSubstr("the connection broke"));
  EXPECT_THAT(reasons["garbles"], HasSubstr("a broken event"));
  EXPECT_THAT(reasons["stops-short"], HasSubstr("ended before"));
  EXPECT_THAT(reasons["says-nothing"], HasSubstr("without a token"));
  EXPECT_EQ(reasons["fails-midway"], "lost the device");
}

TEST_F(LoadRun, ToNobodyFailsForEachRequestAndEnds) {
  ArrivalOptions arrivals;
  arrivals.requests_per_s = 100;
  int free_port = 0;
  {
    StubServer stub([](std::int64_t) { return StubDelays{}; });
    ASSERT_TRUE(stub.start().ok());
    free_port = stub.port();
  }
  const LoadOutcome outcome = run(plan_of(10, arrivals, 1), free_port);
  const LoadFigures figures = figures_of(outcome.records, outcome.duration_s, {}, CountFrom::due);
  EXPECT_EQ(figures.failed, 10);
  EXPECT_EQ(figures.errors.count("no connection: Connection refused"), 1U);
}

}  // namespace
}  // namespace tandem
