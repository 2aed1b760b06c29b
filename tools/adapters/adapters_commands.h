// The commands of `tandem adapters` and what they share: words before flags, and where the
// registry is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/settings/settings.h"
#include "base/status.h"
#include "scheduler/cluster/registry/registry.h"
#include "tools/cli/flags/flags.h"
#include "tools/cli/settings.h"

namespace tandem {

struct AdaptersSettings {
  std::int64_t version = 0;
  bool json = false;
  bool all = false;
  std::string owner;
  // `registry`, `model`, `dtype` and `follow_links_outside`, and all else that the server's files
  // may hold.
  EngineSettings engine;
  ServerSettings server;
};

// NAME and FOLDER, which come before the flags.
struct AdaptersCall {
  std::vector<std::string> words;
  AdaptersSettings settings;
};

// What one of the commands is: how many words it takes, which flags, and what it does.
struct AdaptersCommand {
  CommandInfo info;
  std::size_t least_words = 0;
  std::size_t most_words = 0;
  // Its rows, under the heading "Output" or another.
  void (*add_settings)(SettingsTable& table, AdaptersSettings& settings) = nullptr;
  std::vector<std::string> server_keys;  // of the server's settings, offered as flags as well
  bool needs_model = false;
  Result<int> (*run)(const AdaptersCall& call, Registry& registry) = nullptr;
};

// Reads words and flags, opens the registry and runs the command. An exit status.
int run_adapters_command(const AdaptersCommand& command, const std::vector<std::string>& args);

// The checkpoint that --model, the variable or the file names; empty: none.
std::string given_model(const AdaptersSettings& settings);

int run_adapters_add(const std::vector<std::string>& args);
int run_adapters_list(const std::vector<std::string>& args);
int run_adapters_show(const std::vector<std::string>& args);
int run_adapters_verify(const std::vector<std::string>& args);
int run_adapters_remove(const std::vector<std::string>& args);

}  // namespace tandem
