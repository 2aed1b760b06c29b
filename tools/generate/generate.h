// `tandem generate`: one prompt in, text out, no server.
#pragma once

#include <string>
#include <vector>

namespace tandem {

// Takes the arguments after its own name; returns the exit status.
int run_generate(const std::vector<std::string>& args);

}  // namespace tandem
