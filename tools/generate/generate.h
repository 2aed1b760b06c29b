// `tandem generate`: one prompt in, text out, no server.
#pragma once

#include <string>
#include <vector>

namespace tandem {

// `args` are the arguments after the command's name; returns the exit status.
int run_generate(const std::vector<std::string>& args);

}  // namespace tandem
