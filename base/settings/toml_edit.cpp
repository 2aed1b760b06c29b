#include "base/settings/toml_edit.h"

#include <toml++/toml.h>

#include <algorithm>
#include <cstddef>

namespace tandem {
namespace {

Result<toml::table> parse(std::string_view text, std::string_view name) {
  try {
    return toml::parse(text, name);
  } catch (const toml::parse_error& failure) {
    return invalid("{}:{}: not TOML: {}", name, failure.source().begin.line, failure.description());
  }
}

// toml++ counts lines and characters from 1; a character is up to four bytes.
std::size_t offset_of(std::string_view text, const toml::source_position& position) {
  std::size_t at = 0;
  for (toml::source_index line = 1; line < position.line; ++line) {
    const std::size_t end = text.find('\n', at);
    if (end == std::string_view::npos) return text.size();
    at = end + 1;
  }
  for (toml::source_index letter = 1; letter < position.column && at < text.size(); ++letter) {
    ++at;
    while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) ++at;
  }
  return at;
}

std::size_t end_of_line(std::string_view text, std::size_t at) {
  return std::min(text.find('\n', at), text.size());
}

}  // namespace

Result<std::string> set_toml_values(
    std::string_view text, std::string_view name,
    const std::vector<std::pair<std::string, std::string>>& values) {
  std::string out(text);
  const std::string line_end = text.find("\r\n") == std::string_view::npos ? "\n" : "\r\n";
  for (const auto& [key, value] : values) {
    // Parsed again each time, because each change moves the rest.
    TANDEM_ASSIGN(const toml::table root, parse(out, name));
    if (const toml::node* node = root.get(key)) {
      const std::size_t begin = offset_of(out, node->source().begin);
      const std::size_t end = offset_of(out, node->source().end);
      out.replace(begin, end - begin, value);
      continue;
    }
    // Inserted after the last value that is not a table: after a heading it would belong to that
    // table.
    std::size_t last = 0;
    bool any = false;
    for (auto&& [other, node] : root) {
      if (node.is_table() && !node.as_table()->is_inline()) continue;
      if (node.is_array_of_tables()) continue;
      last = std::max(last, offset_of(out, node.source().end));
      any = true;
    }
    std::size_t at = any ? end_of_line(out, last) : 0;
    if (!any && root.empty()) at = out.size();
    std::string line = fmt::format("{} = {}", key, value);
    if (at < out.size() && out[at] == '\n' && (any || root.empty())) ++at;
    if (at > 0 && out[at - 1] != '\n') line.insert(0, line_end);
    out.insert(at, line + line_end);
  }
  // Verifies that the wanted values are there and nothing else has changed.
  TANDEM_ASSIGN(toml::table before, parse(text, name));
  TANDEM_ASSIGN(toml::table after, parse(out, name));
  for (const auto& [key, value] : values) {
    TANDEM_ASSIGN(toml::table wanted, parse(fmt::format("{} = {}", key, value), "the new value"));
    toml::table is;
    if (const toml::node* node = after.get(key)) is.insert(key, *node);
    if (is != wanted) return error(StatusCode::internal, "{}: {} cannot be set", name, key);
    before.erase(key);
    after.erase(key);
  }
  if (before != after) return error(StatusCode::internal, "{}: other keys would change", name);
  return out;
}

}  // namespace tandem
