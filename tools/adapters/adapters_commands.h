// The subcommands of `tandem adapters` and the code they share: words before flags, and opening the
// registry.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/settings/settings.h"
#include "base/status.h"
#include "scheduler/cluster/registry/registry.h"
#include "tools/cli/flags/flags.h"
#include "tools/settings/engine_settings.h"

namespace tandem {

struct AdaptersSettings {
  std::int64_t version = 0;
  bool json = false;
  bool all = false;
  std::string owner;
  // Uses `registry`, `model`, `dtype` and `follow_links_outside`; the rest is here because the
  // server's files may have it.
  EngineSettings engine;
  ServerSettings server;
};

// A call with its words (NAME and FOLDER) and its settings.
struct AdaptersCall {
  std::vector<std::string> words;
  AdaptersSettings settings;
};

// One of the subcommands: the number of words it takes, its flags and its function.
struct AdaptersCommand {
  CommandInfo info;
  std::size_t least_words = 0;
  std::size_t most_words = 0;
  // Adds its own rows, under the heading "Output" or another.
  void (*add_settings)(SettingsTable& table, AdaptersSettings& settings) = nullptr;
  std::vector<std::string> server_keys;  // keys of the server's settings that are offered as flags
  bool needs_model = false;
  Result<int> (*run)(const AdaptersCall& call, Registry& registry) = nullptr;
};

// Reads words and flags, opens the registry and runs the command. Returns an exit status.
int run_adapters_command(const AdaptersCommand& command, const std::vector<std::string>& args);

// Returns the checkpoint that --model, the variable or the file names; empty: none.
std::string given_model(const AdaptersSettings& settings);

int run_adapters_add(const std::vector<std::string>& args);
int run_adapters_list(const std::vector<std::string>& args);
int run_adapters_show(const std::vector<std::string>& args);
int run_adapters_verify(const std::vector<std::string>& args);
int run_adapters_remove(const std::vector<std::string>& args);

}  // namespace tandem
