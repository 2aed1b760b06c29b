// SettingsTable::load_file. Only this file and toml_edit.cpp use toml++.
#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <fstream>
#include <sstream>

#include "base/limits/bytes_text.h"
#include "base/settings/settings.h"

namespace tandem {
namespace {

// A config file is about a page of text; anything larger is probably a wrong path.
constexpr std::size_t kMaxFileBytes = std::size_t{1} << 20;

Result<std::string> read_text(const std::filesystem::path& path) {
  std::error_code failure;
  if (std::filesystem::is_directory(path, failure)) {
    return invalid("config file {} is a folder", path.string());
  }
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) return errno_status("config file " + path.string(), errno == 0 ? ENOENT : errno);
  std::string text(kMaxFileBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > kMaxFileBytes) {
    return invalid("config file {} is longer than {}; is it the right file?", path.string(),
                   size_text(kMaxFileBytes));
  }
  return text;
}

// The value as the texts that SettingsField::set reads; nothing for tables, dates and the like.
std::optional<std::string> scalar_text(const toml::node& node) {
  if (const auto* value = node.as_string()) return value->get();
  if (const auto* value = node.as_boolean()) return value->get() ? "true" : "false";
  if (const auto* value = node.as_integer()) return fmt::format("{}", value->get());
  if (const auto* value = node.as_floating_point()) return fmt::format("{}", value->get());
  return std::nullopt;
}

// The text of a line; the first line has number 1.
std::string_view line_of(std::string_view text, std::uint32_t line) {
  for (; line > 1 && !text.empty(); --line) {
    text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
  }
  return text.substr(0, text.find('\n'));
}

// The library's messages for the two most frequent mistakes do not name the mistake.
std::string mistake(std::string_view text, const toml::parse_error& failure) {
  const std::string_view said = failure.description();
  const auto says = [said](std::string_view part) {
    return said.find(part) != std::string_view::npos;
  };
  const auto [line, column] = failure.source().begin;
  const bool at_end = column > line_of(text, line).size();
  if (says("parsing") && says("string") && (at_end || says("end-of-file"))) {
    return "a string is not closed; add the quote at its end";
  }
  if (says("could not determine value type")) {
    return "not TOML: a value is neither a number, true or false, nor a string in quotes";
  }
  return fmt::format("not TOML: {}", said);
}

}  // namespace

Status SettingsTable::load_file(const std::filesystem::path& path, const FileReader& reader) {
  TANDEM_ASSIGN(const std::string text, read_text(path));
  const std::string name = path.string();
  toml::table root;
  try {
    root = toml::parse(std::string_view(text), name);
  } catch (const toml::parse_error& failure) {
    return invalid("{}:{}: {}", name, failure.source().begin.line, mistake(text, failure));
  }
  std::vector<std::string> others;
  for (auto&& [key, node] : root) {
    const std::string at = fmt::format("{}:{}", name, node.source().begin.line);
    SettingsField* field = find(key.str());
    if (field == nullptr || !field->facts().has_key) {
      if (reader.any_key) continue;
      TANDEM_TRY(check_retired(key.str(), at));
      if (others.empty() && reader.other_keys) others = reader.other_keys();
      if (std::ranges::find(others, key.str()) != others.end()) continue;
      const std::string close = nearest_key(key.str(), others);
      const std::string remedy =
          reader.command.empty() ? "" : fmt::format("; `{} --help` lists the keys", reader.command);
      return invalid("{}: unknown key '{}'{}", at, key.str(),
                     close.empty() ? remedy : fmt::format("; did you mean '{}'?", close));
    }
    std::vector<std::string> texts;
    if (const toml::array* list = node.as_array(); list != nullptr && is_list(field->facts())) {
      for (const toml::node& item : *list) {
        const auto* value = item.as_string();
        if (value == nullptr) return invalid("{}: '{}' must be a list of strings", at, key.str());
        texts.push_back(value->get());
      }
    } else if (const auto value = scalar_text(node)) {
      texts.push_back(*value);
    } else {
      return invalid("{}: '{}' must be {}", at, key.str(),
                     is_list(field->facts()) ? "a list of strings" : "a single value");
    }
    TANDEM_TRY(field->set(texts, at));
  }
  return {};
}

}  // namespace tandem
