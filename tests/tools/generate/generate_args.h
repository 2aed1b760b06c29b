// The arguments of `tandem generate` in tests: the demo's model, on the host.
#pragma once

#include <string>
#include <vector>

namespace tandem {

inline const std::string kModel = "data/demo-llama";
inline const std::string kAdapters = "data/demo-llama/adapters";

inline std::vector<std::string> generate(std::vector<std::string> more) {
  std::vector<std::string> args = {"generate", "--model", kModel, "--device", "host", "--no-pin"};
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

}  // namespace tandem
