// tandem route, tandem drain.
#pragma once

#include <string>
#include <vector>

namespace tandem {

// The commands; each returns the exit status.
int run_route(const std::vector<std::string>& args);
int run_drain(const std::vector<std::string>& args);

}  // namespace tandem
