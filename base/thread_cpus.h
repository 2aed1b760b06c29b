// On which cpus a thread runs.
#pragma once

#include <span>
#include <string_view>

namespace tandem {

// The calling thread runs on these alone from now on; those that it starts begin there, too. What
// the kernel refuses is told, and costs speed at the most. `whose`: "a compute thread".
void pin_this_thread(std::span<const int> cpus, std::string_view whose);

}  // namespace tandem
