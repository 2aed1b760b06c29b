#include "tests/tools/serve/worker_faults.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "base/check.h"
#include "shm/control.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::size_t kHistory = 60;

// Returns the arguments of a process; none if it has ended.
std::vector<std::string> arguments_of(const fs::path& folder) {
  std::ifstream file(folder / "cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  return words;
}

bool is_worker_of(const std::vector<std::string>& words, const std::string& engine) {
  if (words.size() < 2 || words[1] != "worker") return false;
  for (std::size_t i = 2; i + 1 < words.size(); ++i) {
    if (words[i] == "--engine-pid" && words[i + 1] == engine) return true;
  }
  return false;
}

}  // namespace

std::vector<pid_t> workers_of(pid_t engine) {
  std::vector<pid_t> pids;
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    pid_t pid = 0;
    const auto [end, failure] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (failure != std::errc() || end != name.data() + name.size()) continue;
    if (is_worker_of(arguments_of(entry.path()), std::to_string(engine))) pids.push_back(pid);
  }
  return pids;
}

std::vector<std::string> regions_of(pid_t engine) {
  std::vector<std::string> names;
  const std::string begin = fmt::format("tandem-{}-", engine);
  for (const fs::directory_entry& entry : fs::directory_iterator("/dev/shm")) {
    const std::string name = entry.path().filename();
    if (name.starts_with(begin)) names.push_back(name);
  }
  return names;
}

FaultInjector::FaultInjector(pid_t engine, unsigned seed)
    : engine_(engine), random_(seed), begin_(steady_clock::now()) {
  const Result<ControlInfo> info = read_control(engine);
  TANDEM_CHECK(info.ok(), "{}", info.status().message());
  for (const ControlInfo::Group& group : info->groups) {
    Result<Mailbox> mailbox = Mailbox::open(group.inbox, group.outbox);
    TANDEM_CHECK(mailbox.ok(), "{}", mailbox.status().message());
    mailboxes_.push_back(*std::move(mailbox));
  }
  TANDEM_CHECK(!mailboxes_.empty(), "engine {} has no place for workers", engine);
}

void FaultInjector::note(const std::string& what) {
  const std::chrono::duration<double> at = steady_clock::now() - begin_;
  history_.push_back(fmt::format("{:9.3f} s  {}\n", at.count(), what));
  if (history_.size() > kHistory) history_.pop_front();
}

std::string FaultInjector::history() const {
  std::string all;
  for (const std::string& line : history_) all += line;
  return all;
}

pid_t FaultInjector::some_worker() {
  const std::vector<pid_t> workers = workers_of(engine_);
  return workers.empty() ? 0 : workers[below(workers.size())];
}

void FaultInjector::act() {
  continue_due(steady_clock::now());
  // The deadly faults come first, so that even a short run has them.
  const std::uint64_t kind = acts_ < 2 ? acts_ : below(24);
  ++acts_;
  if (kind == 0) {
    signal_worker(SIGKILL, "SIGKILL");
  } else if (kind == 1) {
    signal_worker(SIGSTOP, "SIGSTOP for good");
  } else if (kind < 5) {
    pause_worker();
  } else if (kind < 7) {
    slow_worker_down();
  } else {
    for (std::uint64_t words = 1 + below(4); words > 0; --words) write_garbage();
  }
}

void FaultInjector::heal() {
  pauses_.clear();
  for (const pid_t worker : workers_of(engine_)) ::kill(worker, SIGCONT);
  note("all go on");
}

void FaultInjector::signal_worker(int number, const char* what) {
  const pid_t worker = some_worker();
  if (worker == 0) return;
  ::kill(worker, number);
  note(fmt::format("{} to worker {}", what, worker));
}

void FaultInjector::pause_worker() {
  const pid_t worker = some_worker();
  if (worker == 0) return;
  const milliseconds length(1 + below(400));
  ::kill(worker, SIGSTOP);
  pauses_.push_back({steady_clock::now() + length, worker});
  note(fmt::format("worker {} stands still for {} ms", worker, length.count()));
}

// If a worker has ended and another process has its pid, the signal is not sent, unless that
// process is a worker of this engine.
void FaultInjector::continue_due(TimePoint now) {
  const std::vector<pid_t> workers = workers_of(engine_);
  std::erase_if(pauses_, [&](const Pause& pause) {
    if (pause.end > now) return false;
    if (std::find(workers.begin(), workers.end(), pause.worker) != workers.end()) {
      ::kill(pause.worker, SIGCONT);
    }
    return true;
  });
}

void FaultInjector::slow_worker_down() {
  const pid_t worker = some_worker();
  if (worker == 0) return;
  note(fmt::format("worker {} is slow", worker));
  for (int i = 0; i < 20; ++i) {
    ::kill(worker, SIGSTOP);
    std::this_thread::sleep_for(milliseconds(1 + below(8)));
    ::kill(worker, SIGCONT);
    std::this_thread::sleep_for(milliseconds(1 + below(8)));
  }
}

// Returns garbage, but never a plausible lie: the number of a job that may be under way would count
// as an answer, and a wrong one, like that of a worker that computes wrongly.
std::uint64_t FaultInjector::garbage(const Mailbox& mailbox) {
  constexpr std::uint64_t kNear = 4 * kNumJobs;
  const std::uint64_t published = mailbox.inbox().published.load(std::memory_order_relaxed);
  switch (below(5)) {
    case 0:
      return 0;
    case 1:
      return ~std::uint64_t{0};
    case 2:
      return published > kNear ? below(published - kNear) : 0;
    case 3:
      return published + (std::uint64_t{1} << 40);
    default:
      return random_() | std::uint64_t{1} << 63;
  }
}

std::uint32_t FaultInjector::garbage_pid(const Mailbox& mailbox) {
  switch (below(5)) {
    case 0:
      return 0;
    case 1:
      return 1;
    case 2:
      return static_cast<std::uint32_t>(engine_);
    case 3:
      return mailbox.worker_slot(static_cast<int>(below(mailbox.shape().num_worker_slots)))
          .pid.load();
    default:
      return static_cast<std::uint32_t>(random_());
  }
}

void FaultInjector::write_garbage() {
  Mailbox& mailbox = mailboxes_[below(mailboxes_.size())];
  // Mostly in slots with workers; now and then in an empty one.
  const std::uint64_t worker_slots = mailbox.shape().num_worker_slots;
  const auto at = static_cast<int>(
      below(below(4) == 0 ? worker_slots : std::min<std::uint64_t>(worker_slots, 3)));
  WorkerSlot& worker_slot = mailbox.worker_slot(at);
  const std::uint64_t value = garbage(mailbox);
  const std::uint64_t group = below(below(2) == 0 ? 4 : kMaxColdGroups);
  std::string word;
  switch (below(12)) {
    case 0:
    case 1:
      word = fmt::format("done[{}]", group);
      worker_slot.done[group] = value;
      break;
    case 2:
    case 3:
      word = fmt::format("shrunk[{}]", group);
      worker_slot.shrunk[group] = value;
      break;
    case 4:
      word = "progress";
      worker_slot.progress = value;
      break;
    case 5:
      word = "heartbeat";
      worker_slot.heartbeat = value;
      break;
    case 6:
      word = "state";
      worker_slot.state = static_cast<WorkerSlotState>(below(2) == 0 ? value % 4 : value);
      break;
    case 7: {
      const std::uint32_t pid = garbage_pid(mailbox);
      note(fmt::format("pid of worker slot {} = {}", at, pid));
      worker_slot.pid = pid;
      return;
    }
    case 8: {
      // Only one of its words is atomic: opening a mailbox refuses unknown values.
      const std::uint64_t at_byte = below(sizeof(OutboxHeader));
      note(fmt::format("byte {} of the outbox = {:#x}", at_byte, value & 0xff));
      mailbox.outbox_region().data()[at_byte] = static_cast<std::byte>(value);
      return;
    }
    case 9:
      word = "cpu and refused";
      worker_slot.cpu = static_cast<std::uint32_t>(value);
      worker_slot.refused = static_cast<std::uint32_t>(random_());
      break;
    case 10:
      word = "jobs and busy_ns";
      worker_slot.jobs = value;
      worker_slot.busy_ns = random_();
      break;
    default:
      word = "what it shared";
      worker_slot.shared_jobs = value;
      worker_slot.shared_ns = random_();
      worker_slot.shared_parts = random_();
  }
  note(fmt::format("{} of worker slot {} = {:#x}", word, at, value));
}

}  // namespace tandem
