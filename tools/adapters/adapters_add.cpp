// tandem adapters add, tandem adapters verify: the commands that read adapters' folders.
#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/dtype.h"
#include "tools/adapters/adapter_reading.h"
#include "tools/adapters/adapter_views.h"
#include "tools/adapters/adapters_commands.h"
#include "tools/setup/engine_setup.h"

namespace tandem {
namespace {

// Returns the name of the user who runs this, from the machine's list of users.
std::string user_name() {
  std::array<char, 4096> buffer{};
  passwd entry{};
  passwd* found = nullptr;
  if (getpwuid_r(getuid(), &entry, buffer.data(), buffer.size(), &found) == 0 && found != nullptr) {
    return found->pw_name;
  }
  return fmt::format("uid {}", getuid());
}

// Returns the absolute path of a folder, so that other processes find it; a preset's name is
// unchanged.
std::string absolute_model(const std::string& model) {
  std::error_code failure;
  const std::filesystem::path real = std::filesystem::canonical(model, failure);
  return failure ? model : real.string();
}

void add_json_setting(SettingsTable& table, AdaptersSettings& s) {
  table.group("Output");
  table.add(s.json, "json", "print JSON instead of text").flag_only();
}

void add_add_settings(SettingsTable& table, AdaptersSettings& s) {
  table.add(s.owner, "owner", "who answers for it; default: who runs this").flag_only();
  add_json_setting(table, s);
}

void add_verify_settings(SettingsTable& table, AdaptersSettings& s) {
  table.add(s.version, "version", "this one instead of the newest; 0: the newest")
      .at_least(0)
      .flag_only();
  add_json_setting(table, s);
}

Result<int> add(const AdaptersCall& call, Registry& registry) {
  const AdaptersSettings& s = call.settings;
  const std::string& name = call.words[0];
  TANDEM_TRY(check_adapter_name(name));
  TANDEM_ASSIGN(const ModelSpec spec, find_model_spec(s.engine.model));
  TANDEM_ASSIGN(const DType dtype, choose_dtype(s.engine, spec, false));
  Result<AdapterEntry> read =
      read_adapter_folder(call.words[1], spec, dtype, s.engine.follow_links_outside);
  if (!read) return read.status().with_context(fmt::format("adapter '{}'", name));
  AdapterEntry entry = std::move(*read);
  entry.name = name;
  entry.model = absolute_model(s.engine.model);
  entry.owner = s.owner.empty() ? user_name() : s.owner;
  entry.created_unix = std::chrono::duration_cast<std::chrono::seconds>(
                           std::chrono::system_clock::now().time_since_epoch())
                           .count();
  TANDEM_ASSIGN(const AddedAdapter added, registry.add_adapter(entry));
  if (s.json) {
    nlohmann::ordered_json json = adapter_json(added.entry);
    json["is_new"] = added.is_new;
    fmt::print("{}\n", json.dump(2));
  } else if (added.is_new) {
    fmt::print("added: '{}' version {}, digest {}\n", name, added.entry.version,
               added.entry.digest);
  } else {
    fmt::print("unchanged: '{}' version {} has this content, digest {}\n", name,
               added.entry.version, added.entry.digest);
  }
  return kExitOk;
}

// Returns the entries to verify: the named one, or the newest version of each adapter.
Result<std::vector<AdapterEntry>> entries_to_verify(const AdaptersCall& call, Registry& registry) {
  if (!call.words.empty()) {
    TANDEM_ASSIGN(AdapterEntry entry, registry.find_adapter(call.words[0], call.settings.version));
    return std::vector<AdapterEntry>{std::move(entry)};
  }
  if (call.settings.version != 0) return invalid("version: of which adapter? Name it first");
  TANDEM_ASSIGN(const RegistrySnapshot all, registry.snapshot());
  return newest_versions(all.adapters);
}

Result<int> verify(const AdaptersCall& call, Registry& registry) {
  TANDEM_ASSIGN(const auto entries, entries_to_verify(call, registry));
  ModelShapes shapes;
  std::size_t bad = 0;
  auto list = nlohmann::ordered_json::array();
  for (const AdapterEntry& entry : entries) {
    const Status status = verify_adapter(entry, given_model(call.settings), shapes,
                                         call.settings.engine.follow_links_outside);
    if (!status) ++bad;
    if (call.settings.json) {
      list.push_back({{"name", entry.name},
                      {"version", entry.version},
                      {"digest", entry.digest},
                      {"ok", status.ok()},
                      {"problem", status.message()}});
    } else if (status) {
      fmt::print("ok: '{}' version {}, digest {}\n", entry.name, entry.version, entry.digest);
    } else {
      fmt::print("BAD: '{}' version {}: {}\n", entry.name, entry.version, status.message());
    }
    std::fflush(stdout);
  }
  if (call.settings.json) {
    fmt::print("{}\n", nlohmann::ordered_json{{"adapters", std::move(list)}, {"bad", bad}}.dump(
                           2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  } else if (entries.empty()) {
    fmt::print("the registry has no adapters\n");
  }
  return bad == 0 ? kExitOk : kExitFailure;
}

}  // namespace

int run_adapters_add(const std::vector<std::string>& args) {
  return run_adapters_command(
      {.info = {"adapters add", "NAME FOLDER --registry URL --model DIR [flags]",
                "Reads the adapter in FOLDER as an engine does, for a base of --model's shape, and "
                "enters it into\n"
                "the registry with the digest of its weights. Other content under a name that is "
                "taken becomes\n"
                "the next version; who uses an older one keeps it. The folder's path is what "
                "engines find it by.",
                "  tandem adapters add sql adapters/sql-2 --registry sqlite:registry.db --model "
                "models/base\n"
                "  tandem adapters add sql adapters/sql-2 --registry "
                "etcd://10.0.0.1:2379,10.0.0.2:2379 --model models/base"},
       .least_words = 2,
       .most_words = 2,
       .add_settings = add_add_settings,
       .server_keys = {"model", "dtype", "follow_links_outside"},
       .needs_model = true,
       .run = add},
      args);
}

int run_adapters_verify(const std::vector<std::string>& args) {
  return run_adapters_command(
      {.info = {"adapters verify", "[NAME] --registry URL [flags]",
                "Reads the folders of the newest versions again, or that of one adapter, and "
                "compares their digests\n"
                "with the registry's. Exit status 1 if one is another, or cannot be read.",
                "  tandem adapters verify --registry sqlite:registry.db\n"
                "  tandem adapters verify sql --version 2 --registry sqlite:registry.db"},
       .least_words = 0,
       .most_words = 1,
       .add_settings = add_verify_settings,
       .server_keys = {"model", "follow_links_outside"},
       .needs_model = false,
       .run = verify},
      args);
}

}  // namespace tandem
