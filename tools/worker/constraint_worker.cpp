// tandem constraint-worker: compiles an engine's constraints in a sandbox; requests come on stdin.
#include "tools/worker/constraint_worker.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

#include "base/log/log.h"
#include "engine/constraint/compile_worker.h"
#include "tools/cli/flags/flags.h"

namespace tandem {
namespace {

const CommandInfo kConstraintWorkerInfo{
    "constraint-worker", "[flags]",
    "Compiles the constraints of requests (JSON schemas, patterns, grammars) for one engine.\n"
    "`tandem serve` and `tandem generate` start it with a socket as its standard input; do not\n"
    "start it by hand. It gives up every privilege, and ends with its engine.",
    "", true};

Status work(std::int64_t memory_mb) {
  int type = 0;
  socklen_t size = sizeof type;
  if (::getsockopt(STDIN_FILENO, SOL_SOCKET, SO_TYPE, &type, &size) != 0) {
    return invalid("its standard input is no socket: an engine starts it");
  }
  return run_compile_worker(STDIN_FILENO, static_cast<std::size_t>(memory_mb) << 20);
}

}  // namespace

int run_constraint_worker(const std::vector<std::string>& args) {
  // TANDEM_CONFIG was meant for the process that started this one; it is not inherited.
  ::unsetenv("TANDEM_CONFIG");
  std::int64_t memory_mb = 512;
  SettingsTable table;
  table.group("Constraint worker");
  table.add(memory_mb, "memory_mb", "private memory that it may take").flag_only().range(16, 65536);
  if (const auto status = read_settings(kConstraintWorkerInfo, table, args)) return *status;
  // The log format is inherited, because one reader gets the log of both processes.
  if (const char* const format = ::getenv("TANDEM_LOG_FORMAT")) {
    if (const auto known = log::parse_format(format)) log::set_format(*known);
  }
  if (const Status worked = work(memory_mb); !worked)
    return report_failure(kConstraintWorkerInfo, worked);
  return kExitOk;
}

}  // namespace tandem
