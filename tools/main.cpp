// tandem: picks the subcommand.
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "engine/base/settings.h"
#include "tools/commands.h"
#include "tools/flags.h"
#include "tools/version.h"

namespace tandem {
namespace {

struct Command {
  const char* name;
  const char* summary;
  int (*run)(const std::vector<std::string>& args);
};

constexpr Command kCommands[] = {
    {"serve", "serve one model and its adapters over REST", run_serve},
    {"generate", "one prompt in, text out, no server", run_generate},
    {"pin", "cores: show the machine, plan which serve what", run_pin},
    {"profile", "measure this machine and model, and plan with it", run_profile},
    {"worker", "compute deltas on a CPU core (internal: started by serve or pin)", run_worker},
    {"bench", "measure this machine: engine, tokenizer, loading", run_bench},
};

std::string overview() {
  std::string out =
      "Usage: tandem COMMAND [flags]\n\nServes one base LLM and many LoRA adapters.\n\nCommands:\n";
  for (const Command& command : kCommands) {
    out += fmt::format("  {:<10}{}\n", command.name, command.summary);
  }
  return out +
         "\n`tandem COMMAND --help` explains a command; `tandem --version` tells what this is.\n";
}

int run(const std::vector<std::string>& args) {
  if (args.empty()) {
    fmt::print(stderr, "{}", overview());
    return kExitUsage;
  }
  const std::string& name = args.front();
  if (name == "--help" || name == "-h" || name == "help") {
    fmt::print("{}", overview());
    return kExitOk;
  }
  if (name == "--version" || name == "-V") {
    fmt::print("{}", version_text());
    return kExitOk;
  }
  std::vector<std::string> names;
  for (const Command& command : kCommands) {
    if (name == command.name) return command.run({args.begin() + 1, args.end()});
    names.emplace_back(command.name);
  }
  const std::string close = nearest(name, names);
  fmt::print(stderr, "tandem: unknown command '{}'; {}`tandem --help` lists the commands\n", name,
             close.empty() ? "" : fmt::format("did you mean '{}'? ", close));
  return kExitUsage;
}

}  // namespace
}  // namespace tandem

int main(int argc, char** argv) {
  // The last resort: a library that throws where none should ends in a message, not in abort().
  try {
    return tandem::run({argv + 1, argv + argc});
  } catch (const std::exception& failure) {
    fmt::print(stderr, "tandem: internal error: {}\n", failure.what());
    return tandem::kExitFailure;
  }
}
