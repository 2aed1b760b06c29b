// tandem adapters: the registry of a cluster's adapters, from the command line.
#pragma once

#include <string>
#include <vector>

namespace tandem {

// Exit status: 0, 1 (it did not work, or an adapter is not what the registry says), 2 (usage).
int run_adapters(const std::vector<std::string>& args);

}  // namespace tandem
