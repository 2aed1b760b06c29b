// Stands in for `tandem worker`: takes its worker slot and behaves as the name of its arena says,
// which names no region here but is "BEHAVIOUR" or "SLOT=BEHAVIOUR,SLOT=BEHAVIOUR"; worker slots
// that are not named are "good".
//
//  good      beats, leaves every job behind, ends when asked or when its engine is gone
//  exit-3    ends at once
//  brief     works for a moment, then ends with 4
//  mute      works without a heartbeat
//  unready   takes its worker slot and never says that it works
//  behind    never makes progress
//  deaf      good, but never ends by itself
//  squatter  good for a moment, then writes a pid without a process into its worker slot
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <sstream>
#include <string>
#include <thread>

#include "shm/mailbox.h"

namespace tandem {
namespace {

constexpr int kBadUsage = 64;
constexpr auto kMoment = std::chrono::milliseconds(20);

std::string behaviour_of(const std::string& script, int worker_slot) {
  if (script.find('=') == std::string::npos) return script;
  std::stringstream rules(script);
  for (std::string rule; std::getline(rules, rule, ',');) {
    const std::size_t equals = rule.find('=');
    if (std::stoi(rule.substr(0, equals)) == worker_slot) return rule.substr(equals + 1);
  }
  return "good";
}

int sit(Mailbox& mailbox, WorkerSlot& worker_slot, const std::string& behaviour, pid_t engine) {
  worker_slot.progress.store(mailbox.inbox().published.load(), std::memory_order_release);
  if (behaviour != "unready")
    worker_slot.state.store(WorkerSlotState::working, std::memory_order_release);
  const auto begin = std::chrono::steady_clock::now();
  while (true) {
    const bool over = mailbox.inbox().stop.load() != 0 || ::getppid() != engine;
    if (over && behaviour != "deaf") return 0;
    const bool later = std::chrono::steady_clock::now() - begin > kMoment;
    if (behaviour == "brief" && later) return 4;
    if (behaviour == "squatter" && later) worker_slot.pid.store(1U << 30);
    if (behaviour != "mute") worker_slot.heartbeat.fetch_add(1);
    if (behaviour != "behind") {
      worker_slot.progress.store(mailbox.inbox().published.load(), std::memory_order_release);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

int run(int argc, char** argv) {
  std::map<std::string, std::string> flags;
  if (argc % 2 != 0 || std::string(argv[1]) != "worker") return kBadUsage;
  for (int i = 2; i < argc; i += 2) flags[argv[i]] = argv[i + 1];
  if (flags.size() != 8) return kBadUsage;
  for (const char* flag : {"--inbox", "--outbox", "--arena", "--worker-slot", "--cpu", "--node",
                           "--spin-ms", "--engine-pid"}) {
    if (flags.count(flag) == 0) return kBadUsage;
  }
  const int index = std::stoi(flags["--worker-slot"]);
  const std::string behaviour = behaviour_of(flags["--arena"], index);
  if (behaviour == "exit-3") return 3;
  auto mailbox = Mailbox::open(flags["--inbox"], flags["--outbox"]);
  if (!mailbox) {
    std::fprintf(stderr, "%s\n", mailbox.status().message().c_str());
    return 5;
  }
  WorkerSlot& worker_slot = mailbox->worker_slot(index);
  std::uint32_t nobody = 0;
  const auto own = static_cast<std::uint32_t>(::getpid());
  if (!worker_slot.pid.compare_exchange_strong(nobody, own)) return 6;
  worker_slot.cpu.store(static_cast<std::uint32_t>(std::stoi(flags["--cpu"])));
  worker_slot.state.store(WorkerSlotState::starting);
  const int result = sit(*mailbox, worker_slot, behaviour, std::stoi(flags["--engine-pid"]));
  worker_slot.state.store(WorkerSlotState::empty);
  worker_slot.pid.store(0, std::memory_order_release);
  return result;
}

}  // namespace
}  // namespace tandem

int main(int argc, char** argv) {
  return argc < 2 ? 64 : tandem::run(argc, argv);
}
