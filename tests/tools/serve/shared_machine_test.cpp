// Several engines on one machine: real servers on a private /dev/shm, so that they see each other
// and no servers of other tests.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "base/threads/thread_cpus.h"
#include "tests/tools/crowd.h"
#include "tests/tools/process.h"
#include "tests/tools/serve/private_shm.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

// Mounted by the first of these tests, before there is any thread.
const std::string& why_not_private() {
  static const std::string why = make_shm_private(std::size_t{512} << 20);
  return why;
}

class SharedMachine : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!why_not_private().empty()) GTEST_SKIP() << why_not_private();
    if (cpus_of_thread().size() < 2) GTEST_SKIP() << "one core cannot be shared out";
  }
};

std::vector<std::string> serve(std::vector<std::string> flags) {
  std::vector<std::string> args = {"serve",          "--model",   "data/demo-llama",
                                   "--port",         "0",         "--device",
                                   "host",           "--pool-gb", "0.05",
                                   "--host-tier-gb", "0.02",      "--claim-cores"};
  args.insert(args.end(), flags.begin(), flags.end());
  return args;
}

// Returns the cpus on which its compute threads may run.
std::set<int> compute_cpus(const ReadyServer& server) {
  std::set<int> cpus;
  const std::string tasks = fmt::format("/proc/{}/task", server.process.pid());
  for (const auto& task : std::filesystem::directory_iterator(tasks)) {
    std::string name;
    std::ifstream(task.path() / "comm") >> name;
    if (name != "compute") continue;
    for (const int cpu : cpus_of_thread(std::stoi(task.path().filename()))) cpus.insert(cpu);
  }
  return cpus;
}

Finished check(const ReadyServer& server) {
  return run_tandem({"pin", "check", "--engine", std::to_string(server.process.pid())});
}

TEST_F(SharedMachine, HasItsCoresSharedOutAmongEngines) {
  ReadyServer one(serve({"--threads", "1"}));
  ASSERT_NE(one.port, 0) << one.process.error();
  ReadyServer other(serve({"--threads", "1"}));
  ASSERT_NE(other.port, 0) << other.process.error();
  // A compute thread takes its core when it starts, and a server is ready without waiting for that.
  for (const ReadyServer* const server : {&one, &other}) {
    EXPECT_TRUE(eventually([&] { return compute_cpus(*server).size() == 1; }));
  }
  EXPECT_THAT(compute_cpus(one), SizeIs(1));
  EXPECT_THAT(compute_cpus(other), SizeIs(1));
  EXPECT_NE(compute_cpus(one), compute_cpus(other));
  EXPECT_THAT(other.process.error(), Not(HasSubstr(" warning ")));
  EXPECT_EQ(check(one).status, 0) << check(one).output;
  EXPECT_EQ(check(other).status, 0) << check(other).output;
}

TEST_F(SharedMachine, TellsTheEngineForWhichNoCoresAreLeftWhoHasThem) {
  ReadyServer one(serve({}));
  ASSERT_NE(one.port, 0) << one.process.error();
  const std::string name = fmt::format("shared with engine {} (demo-llama)", one.process.pid());
  ReadyServer other(serve({"--adapter-mode", "cpu_assist", "--cpu-workers", "1"}));
  ASSERT_NE(other.port, 0) << other.process.error();
  EXPECT_THAT(other.process.error(), HasSubstr(name));
  EXPECT_THAT(other.process.error(), HasSubstr("cores: any for the engine"));
  const Finished checked = check(one);
  EXPECT_EQ(checked.status, 1);
  EXPECT_THAT(checked.output,
              HasSubstr(fmt::format("are engine {}'s (demo-llama), too", other.process.pid())));
}

TEST_F(SharedMachine, IsThereForTheNextEngineWhenOneIsKilled) {
  {
    ReadyServer one(serve({}));
    ASSERT_NE(one.port, 0) << one.process.error();
  }  // SIGKILL
  ReadyServer next(serve({}));
  ASSERT_NE(next.port, 0) << next.process.error();
  EXPECT_THAT(next.process.error(), Not(HasSubstr(" warning ")));
}

}  // namespace
}  // namespace tandem
