// What the commands share that serve HTTP until a signal ends them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "tools/cli/flags/flags.h"
#include "tools/cli/signals.h"

namespace tandem {

// A shell's usual limit of 1024 files is below the defaults of max_connections, and a server
// without a descriptor left can accept nobody, not even to say 503. `files_each`: that a connection
// takes.
void make_room_for_connections(std::int64_t max_connections, std::int64_t files_each);

std::string listening_url(const std::string& host, int port);  // "http://[::1]:8000"

// Logs a warning where others than this machine's users reach the server, and need no key.
void warn_of_open_host(const std::string& host, const std::string& api_key);

// As report_failure(), for what ends a server or `generate`: a file or folder that is missing, or
// may not be read, is a wrong setting, too (kExitUsage). Starting it again would change nothing.
int report_serving_failure(const CommandInfo& command, const Status& status);

// After the first signal: the server drains for so long at most, and whatever hangs then, the
// process ends a second later.
void bound_the_end(StopSignals& signals, double drain_timeout_s);
// That, and says how it went. `drain_and_stop`: true: all came to their end. Returns the process's
// exit status: 0, and 129 after SIGHUP, so that a supervisor starts it again, with its settings as
// they are then.
int drain_after_signal(StopSignals& signals, double drain_timeout_s,
                       const std::function<bool(Duration timeout)>& drain_and_stop);

}  // namespace tandem
