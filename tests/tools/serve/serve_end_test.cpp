// A server is ended while its CPU workers are still starting: there are no warnings, neither from
// the server, which would warn if it had waited for them in vain, nor from a worker that finds it
// gone.
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "base/threads/thread_cpus.h"
#include "tests/support/sanitized.h"
#include "tests/tools/process.h"
#include "tests/tools/serve/worker_faults.h"

namespace tandem {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::HasSubstr;
using testing::Not;

// One worker on each of two cores that this process may use, or on the only one.
std::string worker_cpus() {
  std::vector<int> cpus = cpus_of_thread();
  cpus.resize(std::min<std::size_t>(cpus.size(), 2));
  return fmt::format("{}", fmt::join(cpus, ","));
}

std::vector<std::string> serve() {
  return {"serve",      "--model", "data/demo-llama", "--adapters", "data/demo-llama/adapters",
          "--port",     "0",       "--no-pin",        "--device",   "host",
          "--pool-gb",  "0.25",    "--adapter-mode",  "cpu_assist", "--worker-cpus",
          worker_cpus()};
}

// The time-out is long, because the machine may be busy.
template <typename Condition>
bool comes_true(Condition condition) {
  const auto deadline = steady_clock::now() + std::chrono::minutes(1);
  while (!condition()) {
    if (steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(milliseconds(1));
  }
  return true;
}

class ServeEnd : public testing::TestWithParam<int> {
 protected:
  // Expects no warning and no error, from the server or a worker. Under a sanitizer the end may
  // exceed its time limit, and the end without destructors is then reported.
  static void expect_quiet(const std::string& log) {
    if (sanitized()) return;
    EXPECT_THAT(log, Not(HasSubstr(" warning ")));
    EXPECT_THAT(log, Not(HasSubstr(" error ")));
    EXPECT_THAT(log, Not(HasSubstr("tandem worker")));
  }
  static void expect_nothing_left(pid_t engine) {
    // If an engine ends without destructors, the kernel kills its workers a moment later.
    EXPECT_TRUE(comes_true([&] { return workers_of(engine).empty(); }));
    EXPECT_THAT(regions_of(engine), testing::IsEmpty());
  }
};

TEST_P(ServeEnd, IsQuietBeforeTheServerIsReady) {
  Process server(serve());
  // The workers exist but are not ready, which takes far longer than this check.
  ASSERT_TRUE(comes_true([&] { return !workers_of(server.pid()).empty(); })) << server.error();
  server.send_signal(GetParam());
  const int status = server.wait();
  // Status 0 is possible if the server was ready by then.
  EXPECT_TRUE(status == 128 + GetParam() || status == 0) << status << server.error();
  expect_quiet(server.error());
  expect_nothing_left(server.pid());
}

TEST_P(ServeEnd, IsQuietAsSoonAsTheServerIsReady) {
  Process server(serve());
  ASSERT_TRUE(server.wait_for_error("ready: ")) << server.error();
  server.send_signal(GetParam());
  EXPECT_EQ(server.wait(), 0) << server.error();
  expect_quiet(server.error());
  expect_nothing_left(server.pid());
}

INSTANTIATE_TEST_SUITE_P(Signals, ServeEnd, testing::Values(SIGTERM, SIGINT), [](const auto& each) {
  return std::string(each.param == SIGTERM ? "Term" : "Interrupt");
});

}  // namespace
}  // namespace tandem
