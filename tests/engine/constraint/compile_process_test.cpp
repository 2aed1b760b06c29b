// Compiling in another process: its limits, its end, its restart, its confinement.
#include "engine/constraint/compile_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>

#include "cpu_lora/worker_process/confine.h"
#include "engine/constraint/compiled_constraint.h"
#include "engine/constraint/grammar_backend.h"

namespace tandem {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using Kind = TextConstraint::Kind;
using AnswerKind = CompileAnswer::Kind;

const TextConstraint kEasy{Kind::regex, "[0-9]{3}-[a-z]+"};

// Takes half a second or more, growing with the number of dots.
TextConstraint costly(std::size_t dots) {
  return {Kind::regex, std::string(dots, '.')};
}

TimePoint in(Duration time) {
  return SteadyClock().now() + time;
}

class CompileProcesses : public ::testing::Test {
 protected:
  std::unique_ptr<CompileProcess> make(const CompileLimits& limits = {seconds(5), 256U << 20},
                                       const std::string& program = CONSTRAINT_WORKER) {
    return CompileProcess::create(program, limits, backend_).value();
  }

  std::unique_ptr<Tokenizer> tokenizer_ = Tokenizer::load("data/demo-llama").value();
  GrammarBackend backend_{*tokenizer_, static_cast<std::int32_t>(tokenizer_->vocab_size()), {1}};
};

TEST_F(CompileProcesses, CompileOneAfterTheOtherAndRefuseInXgrammarsWords) {
  const auto process = make();
  const CompileAnswer first = process->compile(kEasy, in(seconds(10)));
  ASSERT_EQ(first.kind, AnswerKind::compiled) << first.text;
  EXPECT_TRUE(backend_.adopt(kEasy, first.text).ok());
  const pid_t pid = process->pid();
  const CompileAnswer bad = process->compile({Kind::grammar, "root ::= missing"}, in(seconds(10)));
  EXPECT_EQ(bad.kind, AnswerKind::refused);
  EXPECT_THAT(bad.text, HasSubstr("missing"));
  EXPECT_EQ(process->compile({Kind::json_object, ""}, in(seconds(10))).kind, AnswerKind::compiled);
  EXPECT_EQ(process->pid(), pid);
}

TEST_F(CompileProcesses, GiveUpAConstraintThatTakesTooMuchProcessorTimeAndGoOnWithTheNext) {
  const auto process = make({milliseconds(40), 256U << 20});
  const CompileAnswer answer = process->compile(costly(8000), in(seconds(60)));
  EXPECT_EQ(answer.kind, AnswerKind::exceeded);
  EXPECT_THAT(answer.text, HasSubstr("too long"));
  EXPECT_EQ(process->compile(kEasy, in(seconds(10))).kind, AnswerKind::compiled);
}

TEST_F(CompileProcesses, GiveUpAConstraintThatTakesTooMuchMemoryAndGoOnWithTheNext) {
  if (!confines_system_calls()) GTEST_SKIP() << "no bound of memory under a sanitizer";
  const auto process = make({seconds(20), 4U << 20});
  const CompileAnswer answer = process->compile(costly(2000), in(seconds(60)));
  EXPECT_EQ(answer.kind, AnswerKind::exceeded);
  EXPECT_THAT(answer.text, HasSubstr("too much memory"));
  EXPECT_EQ(process->compile(kEasy, in(seconds(10))).kind, AnswerKind::compiled);
}

TEST_F(CompileProcesses, AreKilledAtTheDeadline) {
  const auto process = make();
  ASSERT_EQ(process->compile(kEasy, in(seconds(10))).kind, AnswerKind::compiled);
  const pid_t pid = process->pid();
  EXPECT_EQ(process->compile(costly(60'000), in(milliseconds(20))).kind, AnswerKind::late);
  EXPECT_NE(::kill(pid, 0), 0);  // it was also reaped
  EXPECT_EQ(process->compile(kEasy, in(seconds(10))).kind, AnswerKind::compiled);
}

TEST_F(CompileProcesses, AreStartedAgainWhenTheyWereKilled) {
  const auto process = make();
  ASSERT_EQ(process->compile(kEasy, in(seconds(10))).kind, AnswerKind::compiled);
  const pid_t idle = process->pid();
  ::kill(idle, SIGKILL);
  siginfo_t ended{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(idle), &ended, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(process->compile(kEasy, in(seconds(10))).kind, AnswerKind::compiled);
  const pid_t busy = process->pid();
  ASSERT_NE(busy, idle);
  std::thread killer([&] { ::kill(busy, SIGABRT); });
  const CompileAnswer answer = process->compile(costly(60'000), in(seconds(30)));
  killer.join();
  // If the process was killed before the request, it was replaced, and its limit ended the new one.
  if (answer.kind == AnswerKind::crashed) {
    EXPECT_THAT(answer.text, HasSubstr("signal 6"));
  } else {
    EXPECT_EQ(answer.kind, AnswerKind::exceeded);
  }
  EXPECT_EQ(process->compile(kEasy, in(seconds(10))).kind, AnswerKind::compiled);
}

TEST_F(CompileProcesses, SayWhyTheyCannotBeStarted) {
  const CompileAnswer missing = make({}, "/nowhere/tandem")->compile(kEasy, in(seconds(10)));
  EXPECT_EQ(missing.kind, AnswerKind::unavailable);
  EXPECT_THAT(missing.text, HasSubstr("/nowhere/tandem"));
  const CompileAnswer ends = make({}, "/bin/false")->compile(kEasy, in(seconds(10)));
  EXPECT_EQ(ends.kind, AnswerKind::unavailable);
  EXPECT_THAT(ends.text, HasSubstr("exit status 1"));
  const CompileAnswer silent = make({}, "/bin/cat")->compile(kEasy, in(milliseconds(300)));
  EXPECT_EQ(silent.kind, AnswerKind::unavailable) << silent.text;
}

TEST_F(CompileProcesses, EndAWaitThatIsCancelled) {
  const auto process = make();
  ASSERT_EQ(process->compile(kEasy, in(seconds(10))).kind, AnswerKind::compiled);
  std::thread other([&] { process->cancel(); });
  EXPECT_EQ(process->compile(costly(60'000), in(seconds(30))).kind, AnswerKind::cancelled);
  other.join();
}

TEST_F(CompileProcesses, HoldNoPrivilegeAndFilterTheirSystemCalls) {
  if (!confines_system_calls()) GTEST_SKIP() << "not under a sanitizer";
  const auto process = make();
  ASSERT_EQ(process->compile(kEasy, in(seconds(10))).kind, AnswerKind::compiled);
  std::ifstream file(fmt::format("/proc/{}/status", process->pid()));
  const std::string status{std::istreambuf_iterator<char>(file), {}};
  EXPECT_THAT(status, HasSubstr("CapEff:\t0000000000000000"));
  EXPECT_THAT(status, HasSubstr("NoNewPrivs:\t1"));
  EXPECT_THAT(status, HasSubstr("Seccomp:\t2"));
  EXPECT_THAT(status, HasSubstr("Threads:\t1\n"));
}

}  // namespace
}  // namespace tandem
