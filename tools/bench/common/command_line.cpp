#include "tools/bench/common/command_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace tandem {

std::string bench_command_line(const std::string& name, const std::vector<std::string>& args) {
  return fmt::format("tandem bench {}{}{}", name, args.empty() ? "" : " ", fmt::join(args, " "));
}

}  // namespace tandem
