#include "tools/cli/variables.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cctype>
#include <cstdlib>
#include <string_view>

namespace tandem {
namespace {

constexpr std::string_view kPrefix = "TANDEM_";

// The keys that TANDEM_... names in the environment would have.
std::vector<std::string> keys_in_environment() {
  std::vector<std::string> keys;
  for (char** each = ::environ; each != nullptr && *each != nullptr; ++each) {
    std::string_view name(*each);
    name = name.substr(0, name.find('='));
    if (!name.starts_with(kPrefix)) continue;
    std::string& key = keys.emplace_back(name.substr(kPrefix.size()));
    for (char& c : key) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return keys;
}

std::string variable_of(std::string_view key) {
  std::string name(kPrefix);
  for (const char c : key) name += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

void warn_of_misspelt(SettingsTable& table,
                      const std::function<std::vector<std::string>()>& other_keys,
                      const std::function<void(const std::string&)>& warn) {
  std::vector<std::string> known;
  for (const std::string& key : keys_in_environment()) {
    if (key == "config" || table.find(key) != nullptr) continue;
    if (known.empty()) known = other_keys();
    const std::string near = nearest(key, known);
    if (near.empty() || near == key) continue;
    warn(fmt::format("the variable {} is not read; did you mean {}?", variable_of(key),
                     variable_of(near)));
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
