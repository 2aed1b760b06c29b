// tandem adapters list, show, remove: the commands that need only the registry.
#include <fmt/format.h>

#include <cstdio>

#include "tools/adapters/adapter_views.h"
#include "tools/adapters/adapters_commands.h"

namespace tandem {
namespace {

void add_list_settings(SettingsTable& table, AdaptersSettings& s) {
  table.group("Output");
  table.add(s.all, "all", "older versions, too").flag_only();
  table.add(s.json, "json", "print JSON instead of a table").flag_only();
}

void add_show_settings(SettingsTable& table, AdaptersSettings& s) {
  table.group("Output");
  table.add(s.json, "json", "print JSON instead of text").flag_only();
}

void add_remove_settings(SettingsTable& table, AdaptersSettings& s) {
  table.add(s.version, "version", "this one alone; 0: all").at_least(0).flag_only();
}

void print_json(const nlohmann::ordered_json& json) {
  fmt::print("{}\n", json.dump(2));
}

Result<int> list(const AdaptersCall& call, Registry& registry) {
  TANDEM_ASSIGN(RegistrySnapshot found, registry.snapshot());
  if (!call.settings.all) found.adapters = newest_versions(found.adapters);
  if (call.settings.json) {
    print_json({{"adapters", adapters_json(found.adapters)}});
  } else if (found.adapters.empty()) {
    fmt::print("the registry has no adapters; `tandem adapters add NAME FOLDER` enters one\n");
  } else {
    fmt::print("{}", adapters_table(found.adapters));
  }
  return kExitOk;
}

Result<int> show(const AdaptersCall& call, Registry& registry) {
  const std::string& name = call.words[0];
  TANDEM_ASSIGN(const auto versions, registry.adapter_versions(name));
  if (versions.empty()) return registry.find_adapter(name).status();
  if (call.settings.json) {
    print_json({{"name", name}, {"versions", adapters_json(versions)}});
  } else {
    fmt::print("{}", adapter_text(versions));
  }
  return kExitOk;
}

Result<int> remove(const AdaptersCall& call, Registry& registry) {
  const std::string& name = call.words[0];
  TANDEM_ASSIGN(const std::size_t removed, registry.remove_adapter(name, call.settings.version));
  if (call.settings.version != 0) {
    fmt::print("removed: '{}' version {}\n", name, call.settings.version);
  } else {
    fmt::print("removed: '{}', {} version{}\n", name, removed, removed == 1 ? "" : "s");
  }
  return kExitOk;
}

}  // namespace

int run_adapters_list(const std::vector<std::string>& args) {
  return run_adapters_command(
      {.info = {"adapters list", "--registry URL [flags]",
                "Lists the adapters of the registry, the newest version of each.",
                "  tandem adapters list --registry sqlite:registry.db\n"
                "  tandem adapters list --registry etcd://10.0.0.1:2379 --json | jq "
                "'.adapters[].name'"},
       .least_words = 0,
       .most_words = 0,
       .add_settings = add_list_settings,
       .server_keys = {},
       .needs_model = false,
       .run = list},
      args);
}

int run_adapters_show(const std::vector<std::string>& args) {
  return run_adapters_command(
      {.info = {"adapters show", "NAME --registry URL [flags]",
                "Shows all that the registry knows of an adapter, and which versions there are.",
                "  tandem adapters show sql --registry sqlite:registry.db"},
       .least_words = 1,
       .most_words = 1,
       .add_settings = add_show_settings,
       .server_keys = {},
       .needs_model = false,
       .run = show},
      args);
}

int run_adapters_remove(const std::vector<std::string>& args) {
  return run_adapters_command(
      {.info = {"adapters remove", "NAME --registry URL [flags]",
                "Takes an adapter out of the registry, with all of its versions or one. Its folder "
                "stays; requests\n"
                "that run with it end as they would have. A removed version's number is not given "
                "again.",
                "  tandem adapters remove sql --version 1 --registry sqlite:registry.db\n"
                "  tandem adapters remove sql --registry sqlite:registry.db"},
       .least_words = 1,
       .most_words = 1,
       .add_settings = add_remove_settings,
       .server_keys = {},
       .needs_model = false,
       .run = remove},
      args);
}

}  // namespace tandem
