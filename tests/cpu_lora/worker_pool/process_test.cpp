#include "cpu_lora/worker_pool/process.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

#include "cpu_lora/worker_pool/process_wait.h"
#include "cpu_lora/worker_pool/restart_policy.h"
#include "tests/support/temp_dir.h"

namespace tandem {
namespace {

using namespace std::chrono_literals;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

ChildProcess start_shell(const std::string& script) {
  auto child = ChildProcess::start(
      {.program = "/bin/sh", .arguments = {"sh", "-c", script}, .environment = {"GREETING=hello"}});
  EXPECT_TRUE(child.ok()) << child.status().message();
  return std::move(child).value();
}

bool wait_for_end(ChildProcess& child) {
  auto wait = ProcessWait::create();
  for (int i = 0; i < 30 && !child.has_ended(); ++i) {
    const int descriptor = child.descriptor();
    wait->wait({&descriptor, 1}, 1s);
  }
  return child.has_ended();
}

// Returns the output of a script after its end.
std::string output_of(const std::string& script) {
  const testing::TempDir dir;
  const std::string file = dir.path() / "output";
  ChildProcess child = start_shell("exec > " + file + "; " + script);
  EXPECT_TRUE(wait_for_end(child));
  std::stringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

TEST(ChildProcess, SaysHowItEnded) {
  ChildProcess left = start_shell("exit 3");
  EXPECT_TRUE(wait_for_end(left));
  EXPECT_EQ(left.end(), "exit status 3");
  ChildProcess killed = start_shell("kill -SEGV $$");
  EXPECT_TRUE(wait_for_end(killed));
  EXPECT_EQ(killed.end(), "signal 11 (Segmentation fault)");
}

TEST(ChildProcess, IsRefusedWithTheReasonWhenItsProgramCannotRun) {
  const auto child = ChildProcess::start({.program = "/nowhere/tandem", .arguments = {"tandem"}});
  ASSERT_FALSE(child.ok());
  EXPECT_EQ(child.status().code(), StatusCode::not_found);
  EXPECT_THAT(child.status().message(), HasSubstr("/nowhere/tandem"));
  EXPECT_FALSE(ChildProcess::start({.program = "/etc/passwd", .arguments = {"x"}}).ok());
}

TEST(ChildProcess, GetsNoDescriptorNoInputAndNoEnvironmentOfItsParent) {
  const int open = ::open("/dev/zero", O_RDONLY);  // without O_CLOEXEC, as libraries do
  ASSERT_GE(open, 0);
  ::setenv("TANDEM_API_KEY", "secret", 1);
  const std::string text = output_of("ls /proc/$$/fd; readlink /proc/$$/fd/0; wc -c; env");
  ::unsetenv("TANDEM_API_KEY");
  ::close(open);
  EXPECT_THAT(text, StartsWith("0\n1\n2\n/dev/null\n0\n"));
  EXPECT_THAT(text, HasSubstr("GREETING=hello"));
  EXPECT_THAT(text, Not(HasSubstr("secret")));
}

TEST(ChildProcess, BlocksAndIgnoresNoSignals) {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ASSERT_EQ(::pthread_sigmask(SIG_BLOCK, &all, &before), 0);
  const auto pipe_before = ::signal(SIGPIPE, SIG_IGN);
  const std::string text = output_of("grep -E 'SigBlk|SigIgn' /proc/self/status");
  ::signal(SIGPIPE, pipe_before);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  EXPECT_THAT(text, HasSubstr("SigBlk:\t0000000000000000"));
  EXPECT_THAT(text, HasSubstr("SigIgn:\t0000000000000000"));
}

TEST(ChildProcess, HasAProcessGroupOfItsOwn) {
  const ChildProcess child = start_shell("exec sleep 60");
  EXPECT_EQ(::getpgid(child.pid()), child.pid());
}

TEST(ChildProcess, IsKilledAndReapedByItsDestructor) {
  pid_t pid = 0;
  {
    const ChildProcess child = start_shell("exec sleep 60");
    pid = child.pid();
    EXPECT_EQ(::kill(pid, 0), 0);
  }
  EXPECT_EQ(::kill(pid, 0), -1);
  EXPECT_EQ(errno, ESRCH);
}

TEST(ChildProcess, DiesWithTheThreadThatStartedIt) {
  std::optional<ChildProcess> child;
  std::thread([&] { child.emplace(start_shell("exec sleep 60")); }).join();
  EXPECT_TRUE(wait_for_end(*child));
  EXPECT_EQ(child->end(), "signal 9 (Killed)");
}

TEST(KillIf, KillsTheProcessThatIsTheRightOne) {
  auto started = ChildProcess::start({.program = "/bin/sleep", .arguments = {"sleep", "60"}});
  ASSERT_TRUE(started.ok()) << started.status().message();
  ChildProcess child = std::move(started).value();
  EXPECT_THAT(process_arguments(::getpid()), ::testing::Not(::testing::IsEmpty()));
  EXPECT_FALSE(kill_if(child.pid(), SIGKILL, [] { return false; }));
  EXPECT_TRUE(kill_if(child.pid(), SIGKILL, [] { return true; }));
  EXPECT_TRUE(wait_for_end(child));
  EXPECT_THAT(process_arguments(child.pid()), ::testing::IsEmpty());
}

TEST(HarmlessEnvironment, HoldsNeitherSettingsNorKeys) {
  ::setenv("TANDEM_API_KEY", "secret", 1);
  ::setenv("AWS_SECRET_ACCESS_KEY", "secret", 1);
  ::setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1);
  const std::vector<std::string> environment = harmless_environment();
  for (const char* name : {"TANDEM_API_KEY", "AWS_SECRET_ACCESS_KEY", "ONEDNN_MAX_CPU_ISA"}) {
    ::unsetenv(name);
  }
  EXPECT_THAT(environment, Contains("ONEDNN_MAX_CPU_ISA=AVX2"));
  EXPECT_THAT(environment, Contains(StartsWith("PATH=")));
  EXPECT_THAT(environment, Not(Contains(HasSubstr("secret"))));
}

TEST(ProcessWait, EndsByACallOfAnotherThread) {
  auto wait = ProcessWait::create();
  ASSERT_TRUE(wait.ok());
  wait->wake();
  const auto begin = std::chrono::steady_clock::now();
  wait->wait({}, 60s);
  std::thread thread([&] { wait->wake(); });
  wait->wait({}, 60s);
  thread.join();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 30s);
}

TEST(RestartPolicy, DoublesThePauseFromDeathToDeathUpToTheLast) {
  RestartPolicy policy(
      {.first_pause = 50ms, .last_pause = 300ms, .healthy_life = 60s, .max_deaths = 6});
  EXPECT_EQ(policy.on_death(0s), Duration(50ms));
  EXPECT_EQ(policy.on_death(1s), Duration(100ms));
  EXPECT_EQ(policy.on_death(59s), Duration(200ms));
  EXPECT_EQ(policy.on_death(0s), Duration(300ms));
  EXPECT_EQ(policy.on_death(0s), Duration(300ms));
  EXPECT_EQ(policy.on_death(0s), std::nullopt);
  EXPECT_EQ(policy.deaths(), 6);
}

TEST(RestartPolicy, BeginsAnewAfterALongLife) {
  RestartPolicy policy(
      {.first_pause = 50ms, .last_pause = 300ms, .healthy_life = 60s, .max_deaths = 3});
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(policy.on_death(60s), Duration(50ms));
    EXPECT_EQ(policy.on_death(1s), Duration(100ms));
  }
  EXPECT_EQ(policy.on_death(1s), std::nullopt);
}

}  // namespace
}  // namespace tandem
