#include "base/stderr_text.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <string>

#include "base/check.h"

namespace tandem {
namespace {

// Makes standard error a pipe for its lifetime.
class StderrPipe {
 public:
  StderrPipe() : kept_(::dup(STDERR_FILENO)) {
    EXPECT_EQ(::pipe2(ends_.data(), O_CLOEXEC), 0);
    ::dup2(ends_[1], STDERR_FILENO);
  }
  ~StderrPipe() {
    ::dup2(kept_, STDERR_FILENO);
    for (const int fd : {kept_, ends_[0], ends_[1]}) ::close(fd);
  }
  StderrPipe(const StderrPipe&) = delete;
  StderrPipe& operator=(const StderrPipe&) = delete;

  // Fills the pipe; it is blocking again afterwards.
  void fill() const {
    const int flags = ::fcntl(ends_[1], F_GETFL);
    ::fcntl(ends_[1], F_SETFL, flags | O_NONBLOCK);
    while (::write(ends_[1], "xxxxxxxxxxxxxxxx", 16) > 0) {
    }
    while (::write(ends_[1], "x", 1) > 0) {
    }
    ::fcntl(ends_[1], F_SETFL, flags);
  }
  std::string read() const {
    std::string text(1 << 16, '\0');
    const ssize_t count = ::read(ends_[0], text.data(), text.size());
    text.resize(count < 0 ? 0 : static_cast<std::size_t>(count));
    return text;
  }

 private:
  int kept_;
  std::array<int, 2> ends_{};
};

TEST(StderrText, IsWrittenWhereSomebodyReads) {
  const StderrPipe pipe;
  say_on_stderr("last words\n");
  EXPECT_EQ(pipe.read(), "last words\n");
}

TEST(StderrText, IsLostWhereNobodyReadsAndHoldsNobodyUp) {
  const StderrPipe pipe;
  pipe.fill();
  const auto begin = std::chrono::steady_clock::now();
  say_on_stderr(std::string(100'000, 'y'), 20);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  EXPECT_EQ(pipe.read().find('y'), std::string::npos);
}

TEST(StderrText, OfAFailedCheckHoldsNoAbortUp) {
  const StderrPipe pipe;
  pipe.fill();
  const pid_t child = ::fork();
  if (child == 0) {
    TANDEM_CHECK(child != 0, "{}", "nobody reads this");
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGABRT);
}

}  // namespace
}  // namespace tandem
