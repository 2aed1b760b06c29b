// A server that is told to end while its CPU workers are still starting: nobody complains, neither
// the server, which would if it had waited for them in vain, nor a worker that finds it gone.
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

// A worker for each of two cores that this process may use, or for the only one.
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

// What is tested is never the limit: the machine may be busy with others.
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
  // Neither a warning nor an error, of the server or of a worker. A sanitized one may take longer
  // to end than it is given, and what ends without destructors is then reported.
  static void expect_quiet(const std::string& log) {
    if (sanitized()) return;
    EXPECT_THAT(log, Not(HasSubstr(" warning ")));
    EXPECT_THAT(log, Not(HasSubstr(" error ")));
    EXPECT_THAT(log, Not(HasSubstr("tandem worker")));
  }
  static void expect_nothing_left(pid_t engine) {
    // The kernel kills them with an engine that ends without destructors, a moment later.
    EXPECT_TRUE(comes_true([&] { return workers_of(engine).empty(); }));
    EXPECT_THAT(regions_of(engine), testing::IsEmpty());
  }
};

TEST_P(ServeEnd, IsQuietBeforeTheServerIsReady) {
  Process server(serve());
  // They are there, but do not work yet: that takes longer by far than a look.
  ASSERT_TRUE(comes_true([&] { return !workers_of(server.pid()).empty(); })) << server.error();
  server.send_signal(GetParam());
  const int status = server.wait();
  // The second, if it was ready by then.
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
