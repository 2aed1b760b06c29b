#include "engine/loader/peft/module_match.h"

#include <algorithm>

namespace tandem {

ModuleSet ModuleSet::of_names(std::vector<std::string> names) {
  ModuleSet set;
  set.names_ = std::move(names);
  return set;
}

Result<ModuleSet> ModuleSet::of_regex(std::string_view pattern) {
  ModuleSet set;
  TANDEM_ASSIGN(set.regex_, PythonRegex::compile_full(pattern));
  return set;
}

ModuleSet::Match ModuleSet::match_name(std::string_view name, std::string_view path) {
  if (name == path) return Match::whole;
  const bool is_end = path.size() > name.size() && path.ends_with(name) &&
                      path[path.size() - name.size() - 1] == '.';
  return is_end ? Match::by_end : Match::none;
}

Result<ModuleSet::Match> ModuleSet::match(std::string_view path) const {
  if (regex_) {
    TANDEM_ASSIGN(const bool matched, regex_->matches(path));
    return matched ? Match::whole : Match::none;
  }
  Match best = Match::none;
  for (const std::string& name : names_) best = std::max(best, match_name(name, path));
  return best;
}

namespace {

// True if the key has only literal characters and dots.
bool is_plain(std::string_view key) {
  return std::all_of(key.begin(), key.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.';
  });
}

// Matches like the regular expression (.*\.)?(key) for a plain key, whose dots match any character.
// Some adapters have one key for every module of every layer; the number of matches is then
// quadratic, too many for a real regular expression.
bool matches_plain(std::string_view key, std::string_view path) {
  if (key.size() > path.size()) return false;
  const std::size_t start = path.size() - key.size();
  if (start > 0 && path[start - 1] != '.') return false;
  return std::equal(key.begin(), key.end(), path.begin() + static_cast<std::ptrdiff_t>(start),
                    [](char k, char p) { return k == '.' || k == p; });
}

}  // namespace

Status PatternMap::add(std::string_view key, double value) {
  Entry entry{std::string(key), std::nullopt, value};
  if (!is_plain(key)) {
    TANDEM_ASSIGN(entry.regex, PythonRegex::compile_full(fmt::format(R"((?:.*\.)?(?:{}))", key)));
  }
  entries_.push_back(std::move(entry));
  return {};
}

Result<std::optional<double>> PatternMap::find(std::string_view path) const {
  for (const Entry& entry : entries_) {
    bool matched = false;
    if (entry.regex) {
      TANDEM_ASSIGN(matched, entry.regex->matches(path));
    } else {
      matched = matches_plain(entry.plain, path);
    }
    if (matched) return std::optional(entry.value);
  }
  return std::optional<double>();
}

}  // namespace tandem
