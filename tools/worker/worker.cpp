// tandem worker: one CPU LoRA worker, in its own process on its own core.
#include <fmt/format.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <string>
#include <utility>

#include "base/log/log.h"
#include "cpu_lora/worker/worker_loop.h"
#include "cpu_lora/worker_process/bind.h"
#include "cpu_lora/worker_process/confine.h"
#include "cpu_lora/worker_process/engine_watch.h"
#include "shm/mailbox.h"
#include "shm/region.h"
#include "tools/cli/flags/flags.h"
#include "tools/worker/worker.h"

namespace tandem {
namespace {

const CommandInfo kInfo{
    "worker", "--inbox NAME --outbox NAME --arena NAME --worker-slot I --engine-pid P [flags]",
    "Computes LoRA deltas of adapters that are not on the GPU yet, for one engine, on one core.\n"
    "`tandem serve` and `tandem pin apply` start it; do not start it by hand. It gives up every\n"
    "privilege, and ends with its engine.",
    "", true};

struct WorkerSettings {
  std::string inbox, outbox, arena;
  std::int64_t worker_slot = -1;
  std::int64_t cpu = -1;
  std::int64_t node = -1;
  double spin_ms = WorkerLoopOptions().spin_ms;
  std::int64_t engine_pid = 0;
};

void add_worker_settings(SettingsTable& table, WorkerSettings& s) {
  table.group("Worker");
  const auto add = [&](auto& member, const char* key, const char* help) -> SettingsField& {
    return table.add(member, key, help).flag_only();
  };
  add(s.inbox, "inbox", "shared memory that jobs come by").meta("NAME").required();
  add(s.outbox, "outbox", "shared memory that answers go by").meta("NAME").required();
  add(s.arena, "arena", "shared memory with the weights").meta("NAME").required();
  add(s.worker_slot, "worker_slot", "its place among the workers of this mailbox")
      .range(0, kMaxWorkerSlots - 1);
  add(s.cpu, "cpu", "core to run on; -1: any").at_least(-1);
  add(s.node, "node", "NUMA node to take memory from; -1: any").at_least(-1);
  add(s.spin_ms, "spin_ms", "without work it spins for this long, then sleeps").at_least(0);
  add(s.engine_pid, "engine_pid", "process whose worker it is").at_least(1);
}

std::atomic<bool> stop_requested{false};
static_assert(std::atomic<bool>::is_always_lock_free);  // required in a signal handler

// A terminal sends Ctrl-C and its own end to all its processes: workers ignore both, because only
// the engine decides when they end.
Status take_signals() {
  struct sigaction action = {};
  action.sa_handler = SIG_IGN;
  if (::sigaction(SIGINT, &action, nullptr) != 0) return errno_status("sigaction", errno);
  if (::sigaction(SIGHUP, &action, nullptr) != 0) return errno_status("sigaction", errno);
  action.sa_handler = [](int) { stop_requested.store(true, std::memory_order_relaxed); };
  if (::sigaction(SIGTERM, &action, nullptr) != 0) return errno_status("sigaction", errno);
  return {};
}

// The shared memory regions that the engine has made for its workers.
struct Regions {
  Mailbox mailbox;
  ShmRegion arena;
};

// Returns not_found if the engine has removed them already.
Result<Regions> open_regions(const WorkerSettings& s) {
  TANDEM_ASSIGN(Mailbox mailbox, Mailbox::open(s.inbox, s.outbox));
  TANDEM_ASSIGN(ShmRegion arena, ShmRegion::open(s.arena, ShmRegion::Access::read_only));
  return Regions{std::move(mailbox), std::move(arena)};
}

Status work(const WorkerSettings& s, Regions& regions, const EngineWatch& engine) {
  // A start takes up to a second; the engine may have asked for the end meanwhile.
  if (stop_requested || regions.mailbox.inbox().stop.load(std::memory_order_relaxed) != 0)
    return {};
  WorkerLoopOptions options;
  options.worker_slot = static_cast<int>(s.worker_slot);
  options.cpu = static_cast<int>(s.cpu);
  options.spin_ms = s.spin_ms;
  TANDEM_ASSIGN(
      WorkerLoop loop,
      WorkerLoop::create(regions.mailbox, {regions.arena.data(), regions.arena.bytes()}, options));
  TANDEM_TRY(confine_this_process());
  loop.run(stop_requested, [&] { return engine.alive(); });
  return {};
}

// Returns an exit status.
Result<int> run(const WorkerSettings& s) {
  TANDEM_TRY(take_signals());
  const Result<EngineWatch> engine = EngineWatch::open(static_cast<int>(s.engine_pid));
  if (!engine && engine.status().code() == StatusCode::unavailable) return kExitEngineGone;
  if (!engine) return engine.status();
  // Before mapping and allocating, so that the memory is on this core's node.
  TANDEM_TRY(bind_to_cpu(static_cast<int>(s.cpu)));
  prefer_memory_of(static_cast<int>(s.node));
  Result<Regions> regions = open_regions(s);
  // The engine removed the regions because it is ending.
  if (!regions && regions.status().code() == StatusCode::not_found) return kExitEngineGone;
  if (!regions) return regions.status();
  const Status worked = work(s, *regions, *engine);
  if (!worked && !engine->alive()) return kExitEngineGone;
  if (!worked) return worked;
  return kExitOk;
}

}  // namespace

int run_worker(const std::vector<std::string>& args) {
  // TANDEM_CONFIG was meant for the process that started this one; it is not inherited.
  ::unsetenv("TANDEM_CONFIG");
  WorkerSettings settings;
  SettingsTable table;
  add_worker_settings(table, settings);
  if (const auto status = read_settings(kInfo, table, args)) return *status;
  // The log format is inherited, because one reader gets the log of both processes.
  if (const char* const format = ::getenv("TANDEM_LOG_FORMAT")) {
    if (const auto known = log::parse_format(format)) log::set_format(*known);
  }
  const Result<int> status = run(settings);
  return status ? *status : report_failure(kInfo, status.status());
}

}  // namespace tandem
