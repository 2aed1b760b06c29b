// `tandem serve`: one engine server.
#pragma once

#include <string>
#include <vector>

namespace tandem {

// Takes the arguments after its own name; returns the exit status.
int run_serve(const std::vector<std::string>& args);

}  // namespace tandem
