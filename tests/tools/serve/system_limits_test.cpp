// Runs `tandem` under limits of the system: of the process (ulimit), of its control groups, and a
// read-only /dev/shm. The message names the limit and a remedy, instead of a bare errno or a kill.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/real_cgroup.h"
#include "tests/support/sanitized.h"
#include "tests/support/temp_dir.h"
#include "tests/tools/process.h"

namespace tandem {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

ProcessOptions shell() {
  ProcessOptions options;
  options.program = "/bin/sh";
  return options;
}

// Runs the shell command `before`, then `tandem` in its place. Arguments must not contain blanks.
Finished run_after(const std::string& before, const std::vector<std::string>& args) {
  return run_tandem(
      {"-c", fmt::format("{} && exec {} {}", before, program_under_test(), fmt::join(args, " "))},
      shell());
}

std::vector<std::string> serve_with(const std::vector<std::string>& more) {
  std::vector<std::string> args = {
      "serve",    "--model", "data/demo-llama", "--port", "0", "--no-pin",
      "--device", "host",    "--host-tier-gb",  "0.07"};
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

class UlimitOf : public ::testing::Test {
 protected:
  void SetUp() override {
    if (sanitized()) GTEST_SKIP() << "the sanitizers' own memory breaks any limit";
  }
};

TEST_F(UlimitOf, AddressSpaceIsNamedWhereAPoolDoesNotFit) {
  const Finished run = run_after("ulimit -v 1000000", serve_with({"--pool-gb", "2"}));
  EXPECT_EQ(run.status, 1);
  EXPECT_THAT(run.error, AllOf(HasSubstr("page pool"), HasSubstr("RLIMIT_AS (ulimit -v)"),
                               HasSubstr("raise it")));
}

TEST_F(UlimitOf, PrivateMemoryIsNamedWhereThreadsCannotStart) {
  const Finished run = run_after("ulimit -d 20000", serve_with({}));
  EXPECT_EQ(run.status, 1);
  EXPECT_THAT(run.error, HasSubstr("RLIMIT_DATA (ulimit -d)"));
}

TEST_F(UlimitOf, AddressSpaceIsNamedByAProfile) {
  const testing::TempDir dir;
  const Finished run =
      run_after("ulimit -v 150000", {"profile", "--model", "data/demo-llama", "--device", "host",
                                     "--workers", "0", "--out", (dir.path() / "p.json").string()});
  EXPECT_EQ(run.status, 1);
  EXPECT_THAT(run.error, HasSubstr("RLIMIT_AS (ulimit -v)"));
}

TEST(CgroupOf, TooLittleMemoryIsNamedAtTheStart) {
  const auto group = testing::RealCgroup::make("memory");
  if (!group || !group->limit_memory(400'000'000)) {
    GTEST_SKIP() << "this process may not make a cgroup that limits memory";
  }
  const Finished run = run_after(fmt::format("echo $$ > {}/cgroup.procs", group->inner().string()),
                                 serve_with({"--pool-gb", "1"}));
  EXPECT_EQ(run.status, 1);
  EXPECT_THAT(run.error, AllOf(HasSubstr("1.0 GB for the page pool"),
                               HasSubstr("of 400.0 MB (" + group->folder().string() + "/memory."),
                               HasSubstr("lower pool_gb")));
}

TEST(CgroupOf, AQuotaIsSaidOfThisMachine) {
  const auto group = testing::RealCgroup::make("cpu");
  if (!group || !group->limit_cpus(0.5)) {
    GTEST_SKIP() << "this process may not make a cgroup with a quota";
  }
  const std::string enter = fmt::format("echo $$ > {}/cgroup.procs", group->inner().string());
  const Finished text = run_after(enter, {"pin", "show"});
  EXPECT_EQ(text.status, 0) << text.error;
  EXPECT_THAT(text.output, HasSubstr("0.5 cores at most (" + group->folder().string() + "/cpu."));
  const Finished json = run_after(enter, {"pin", "show", "--json"});
  EXPECT_THAT(json.output, HasSubstr("\"quota_cpus\": 0.5"));
}

TEST(DevShm, ThatIsReadOnlyIsSaidAsSuch) {
  const std::string mount = "mount -t tmpfs -o ro,size=64m none /dev/shm";
  const Finished possible = run_tandem({"-c", "unshare --mount sh -c '" + mount + "'"}, shell());
  if (possible.status != 0) GTEST_SKIP() << "this process may not mount";
  Process server({"-c", fmt::format("exec unshare --mount sh -c '{} && exec {} {}'", mount,
                                    program_under_test(), fmt::join(serve_with({}), " "))},
                 shell());
  EXPECT_TRUE(server.wait_for_error("/dev/shm is mounted read-only: make it writable"))
      << server.error();
  EXPECT_TRUE(server.wait_for_error("ready:")) << server.error();
  server.send_signal(SIGTERM);
  EXPECT_EQ(server.wait(), 0) << server.error();
}

}  // namespace
}  // namespace tandem
