// tandem adapters: picks the subcommand, and has the code that the subcommands share.
#include "tools/adapters/adapters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "tools/adapters/adapters_commands.h"

namespace tandem {
namespace {

constexpr Subcommand kAdaptersCommands[] = {
    {"add", "check an adapter's folder and enter it, as the next version of its name",
     run_adapters_add},
    {"list", "the newest version of each adapter", run_adapters_list},
    {"show", "all that is known of one adapter", run_adapters_show},
    {"verify", "read the folders again and compare their digests", run_adapters_verify},
    {"remove", "take an adapter, or one version of it, out of the registry", run_adapters_remove},
};

// The model setting of commands that need no model. No folder has this name.
constexpr const char* kNoModel = "that of the entry";

// Adds the settings of `tandem serve`, so that TANDEM_CONFIG and --config may name its file;
// settings that are not offered as flags are read and ignored.
void add_server_keys(SettingsTable& table, const AdaptersCommand& command, AdaptersSettings& s) {
  if (!command.needs_model) s.engine.model = kNoModel;
  const std::size_t first = table.fields().size();
  add_serve_settings(table, s.engine, s.server);
  for (std::size_t i = first; i < table.fields().size(); ++i) {
    SettingsField& field = table.fields()[i];
    const bool offered =
        std::ranges::find(command.server_keys, field.facts().key) != command.server_keys.end();
    if (field.facts().key == "registry") {
      field.required();
    } else if (!offered) {
      field.in_file_only();
    }
  }
}

}  // namespace

std::string given_model(const AdaptersSettings& settings) {
  return settings.engine.model == kNoModel ? std::string() : settings.engine.model;
}

int run_adapters_command(const AdaptersCommand& command, const std::vector<std::string>& args) {
  AdaptersCall call;
  SettingsTable table;
  if (command.add_settings != nullptr) command.add_settings(table, call.settings);
  add_server_keys(table, command, call.settings);
  const GivenBeside beside{.words = &call.words,
                           .least_words = command.least_words,
                           .most_words = command.most_words,
                           .word = "adapter"};
  if (const auto status = read_settings(command.info, std::move(table), args, beside)) {
    return *status;
  }
  const auto registry = open_registry(call.settings.server.registry);
  if (!registry) return report_failure(command.info, registry.status());
  const Result<int> status = command.run(call, **registry);
  return status ? *status : report_failure(command.info, status.status());
}

int run_adapters(const std::vector<std::string>& args) {
  return run_subcommand(
      {"tandem adapters", "command",
       "Usage: tandem adapters COMMAND [NAME] [flags]\n\nThe registry of a cluster's adapters: a "
       "file of SQLite for one host, etcd for many.\n\nCommands:\n",
       "\nWhere it is: --registry URL, or the variable TANDEM_REGISTRY.\n"
       "`tandem adapters COMMAND --help` lists the flags.\n",
       kAdaptersCommands},
      args);
}

}  // namespace tandem
