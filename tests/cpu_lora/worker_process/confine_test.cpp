// Tests in child processes what a confined process may still do.
#include "cpu_lora/worker_process/confine.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <functional>

#include "cpu_lora/worker/worker_loop.h"
#include "cpu_lora/worker_process/bind.h"
#include "cpu_lora/worker_process/engine_watch.h"
#include "shm/jobs.h"
#include "tests/cpu_lora/worker/delta_case.h"

namespace tandem {
namespace {

// Returns the exit status of a confined child that runs `body`; 99: it could not be confined.
int confined(const std::function<int()>& body, const Confinement& keeps = {}) {
  const pid_t child = ::fork();
  if (child == 0) {
    const Status done = confine_this_process(keeps);
    if (!done) fmt::print(stderr, "{}\n", done.message());
    ::_exit(done.ok() ? body() : 99);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int forbidden(long result) {
  return result < 0 && (errno == EPERM || errno == EAGAIN || errno == EMFILE) ? 0 : 1;
}

TEST(Confine, TakesFilesSocketsProcessesAndSignals) {
  if (!confines_system_calls()) GTEST_SKIP() << "not under a sanitizer";
  EXPECT_EQ(confined([] { return forbidden(::open("/etc/hostname", O_RDONLY)); }), 0);
  EXPECT_EQ(confined([] { return forbidden(::socket(AF_UNIX, SOCK_STREAM, 0)); }), 0);
  EXPECT_EQ(confined([] { return forbidden(::socket(AF_INET, SOCK_STREAM, 0)); }), 0);
  EXPECT_EQ(confined([] { return forbidden(::fork()); }), 0);
  EXPECT_EQ(confined([] { return forbidden(::execl("/bin/true", "true", nullptr)); }), 0);
  EXPECT_EQ(confined([] { return forbidden(::kill(::getppid(), SIGTERM)); }), 0);
  EXPECT_EQ(confined([] { return forbidden(::prctl(PR_SET_DUMPABLE, 1)); }), 0);
  EXPECT_EQ(confined([] { return forbidden(::write(STDOUT_FILENO, "x", 1)); }), 0);
  EXPECT_EQ(confined([] {
              void* file = ::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, STDIN_FILENO, 0);
              return forbidden(file == MAP_FAILED ? -1 : 0);
            }),
            0);
}

TEST(Confine, LeavesAChannelAndATimerToThoseThatAskForThem) {
  if (!confines_system_calls()) GTEST_SKIP() << "not under a sanitizer";
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const int channel = ends[1];
  const auto talks = [channel] {
    char byte = 'x';
    return ::write(channel, &byte, 1) == 1 && ::read(channel, &byte, 1) == 1 && byte == 'y' ? 0 : 1;
  };
  const auto times = [] {
    const itimerval never{};
    return ::setitimer(ITIMER_PROF, &never, nullptr) == 0 ? 0 : 1;
  };
  ASSERT_EQ(::write(ends[0], "y", 1), 1);
  EXPECT_NE(confined(talks), 0);
  EXPECT_NE(confined(times), 0);
  EXPECT_EQ(confined(talks, {.channel = channel}), 0);
  EXPECT_EQ(confined(times, {.cpu_timer = true}), 0);
  const int other = ends[0];
  EXPECT_NE(confined([other] { return ::write(other, "x", 1) == 1 ? 0 : 1; }, {.channel = channel}),
            0);
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(Confine, BoundsThePrivateMemoryThatMayStillBeTaken) {
  if (!confines_system_calls()) GTEST_SKIP() << "not under a sanitizer";
  const auto takes = [](std::size_t bytes) {
    return [bytes] {
      void* const at =
          ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      return at != MAP_FAILED ? 0 : 1;
    };
  };
  constexpr std::size_t kMb = std::size_t{1} << 20;
  EXPECT_EQ(confined(takes(8 * kMb), {.memory_bytes = 16 * kMb}), 0);
  EXPECT_EQ(confined(takes(64 * kMb), {.memory_bytes = 16 * kMb}), 1);
  EXPECT_EQ(confined(takes(64 * kMb)), 0);
}

// A confined worker can do everything it has to: sleep, wake, compile products, allocate.
TEST(Confine, LeavesAWorkerAllItNeeds) {
  auto mailbox = Mailbox::create({DType::f32, 2, 64, 1024, 256, 64}, -1);
  ASSERT_TRUE(mailbox.ok()) << mailbox.status().message();
  const DeltaCase it({40, 1000, {24}, {100}}, DType::f32, 77);
  const pid_t engine = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) {
    auto opened = Mailbox::open(mailbox->inbox_region().name(), mailbox->outbox_region().name());
    const auto watch = EngineWatch::open(engine);
    if (!opened || !watch || !bind_to_cpu(-1).ok()) ::_exit(90);
    prefer_memory_of(0);
    auto loop = WorkerLoop::create(*opened, it.arena(), {.worker_slot = 0, .spin_ms = 0});
    if (!loop) ::_exit(91);
    if (!confine_this_process()) ::_exit(92);
    const std::atomic<bool> never{false};
    loop->run(never, [&] { return watch->alive(); });
    ::_exit(0);
  }
  WorkerSlot& worker_slot = mailbox->worker_slot(0);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  const auto comes_true = [&](auto condition) {
    while (!condition()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      ::usleep(100);
    }
    return true;
  };
  EXPECT_TRUE(comes_true([&] { return worker_slot.state.load() == WorkerSlotState::sleeping; }));
  const GroupJob job = it.job(0x1, JobSplit::columns);
  const std::vector<std::byte> x = it.x();
  std::memcpy(mailbox->x_of(0), x.data(), x.size());
  publish_job(*mailbox, 1, &job, 1);
  wake_workers(*mailbox);
  mailbox->doorbells()[0].value.store(doorbell_of(1, Ticket::cpu), std::memory_order_release);
  EXPECT_TRUE(comes_true([&] { return worker_slot.done[0].load(std::memory_order_acquire) == 1; }));
  EXPECT_EQ(it.check_y(mailbox->y_of(0), std::byte{0}), "");
  stop_workers(*mailbox);
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(EngineWatch, SeesTheEndOfAProcess) {
  const pid_t child = ::fork();
  if (child == 0) {
    for (;;) ::pause();
  }
  const auto watch = EngineWatch::open(child);
  ASSERT_TRUE(watch.ok()) << watch.status().message();
  EXPECT_TRUE(watch->alive());
  ::kill(child, SIGKILL);
  siginfo_t ended = {};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT), 0);
  EXPECT_FALSE(watch->alive());  // even before it is reaped
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(EngineWatch::open(child).status().code(), StatusCode::unavailable);
}

TEST(Bind, RefusesACpuThatIsNotThere) {
  EXPECT_EQ(bind_to_cpu(100000).code(), StatusCode::invalid_argument);
  EXPECT_TRUE(bind_to_cpu(-1).ok());
}

}  // namespace
}  // namespace tandem
