#include "tools/cli/flags/variables.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cctype>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace tandem {
namespace {

constexpr std::string_view kPrefix = "TANDEM_";

// Returns the names of the environment variables that begin with TANDEM_.
std::vector<std::string> names_in_environment() {
  std::vector<std::string> names;
  for (char** each = ::environ; each != nullptr && *each != nullptr; ++each) {
    std::string_view name(*each);
    name = name.substr(0, name.find('='));
    if (name.starts_with(kPrefix)) names.emplace_back(name);
  }
  return names;
}

// Returns the key of the setting that a variable of this name sets.
std::string key_of(std::string_view name) {
  std::string key(name.substr(kPrefix.size()));
  for (char& c : key) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return key;
}

std::string variable_of(std::string key) {
  SettingsFacts facts;
  facts.key = std::move(key);
  return environment_of(facts);
}

void warn_of_misspelt(SettingsTable& table,
                      const std::function<std::vector<std::string>()>& other_keys,
                      const std::function<void(const std::string&)>& warn) {
  std::vector<std::string> known;
  for (const std::string& name : names_in_environment()) {
    const std::string key = key_of(name);
    if (key == "config" || table.find(key) != nullptr) continue;
    if (!table.check_retired(key, name)) continue;  // load_environment() refuses it
    if (known.empty()) known = other_keys();
    const std::string near = nearest(key, known);
    if (near.empty() || near == key) continue;
    warn(fmt::format("the variable {} is not read; did you mean {}?", name, variable_of(near)));
  }
}

}  // namespace

Status load_variables(SettingsTable& table,
                      const std::function<std::vector<std::string>()>& other_keys,
                      const std::function<void(const std::string&)>& warn) {
  if (other_keys) warn_of_misspelt(table, other_keys, warn);
  return table.load_environment([&](const char* name) -> const char* {
    const char* const value = std::getenv(name);
    const bool is_url = value != nullptr && std::string_view(value).starts_with("tcp://");
    if (!is_url || std::string_view(name) != "TANDEM_PORT") return value;
    warn(
        fmt::format("{}={} is passed over: Kubernetes sets it for a Service named tandem "
                    "(enableServiceLinks: false in the pod's spec turns that off)",
                    name, value));
    return nullptr;
  });
}

}  // namespace tandem
