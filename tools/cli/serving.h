// Helpers shared by the commands that serve HTTP until a signal ends them.
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

// Raises the limit of open files for so many connections. The usual limit of 1024 is below the
// defaults of max_connections, and a server without a free descriptor cannot even accept a
// connection to answer 503. `files_each`: descriptors per connection.
void make_room_for_connections(std::int64_t max_connections, std::int64_t files_each);

std::string listening_url(const std::string& host, int port);  // "http://[::1]:8000"

// Logs a warning if the server can be reached from other machines and needs no key.
void warn_of_open_host(const std::string& host, const std::string& api_key);

// Like report_failure(), for failures that end a server or `generate`: a missing or unreadable file
// or folder counts as a wrong setting (kExitUsage), because a restart would not help.
int report_serving_failure(const CommandInfo& command, const Status& status);

// Starts the deadline after the first signal: the server may drain for this long, and the process
// ends one second later even if something hangs.
void bound_the_end(StopSignals& signals, double drain_timeout_s);
// Calls bound_the_end(), drains, and logs the outcome. `drain_and_stop` returns true if all
// requests finished. Returns the process's exit status: 0, or 129 after SIGHUP, so that a
// supervisor restarts it with its settings as they are then.
int drain_after_signal(StopSignals& signals, double drain_timeout_s,
                       const std::function<bool(Duration timeout)>& drain_and_stop);

}  // namespace tandem
