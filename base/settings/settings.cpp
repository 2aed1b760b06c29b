#include "base/settings/settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/parse_number.h"

namespace tandem {
namespace {

template <typename... Fs>
struct Overloaded : Fs... {
  using Fs::operator()...;
};
template <typename... Fs>
Overloaded(Fs...) -> Overloaded<Fs...>;

std::string quote(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string quote_list(const std::vector<std::string>& texts) {
  std::vector<std::string> quoted;
  quoted.reserve(texts.size());
  for (const std::string& text : texts) quoted.push_back(quote(text));
  return fmt::format("[{}]", fmt::join(quoted, ", "));
}

// Makes sure of a point or an exponent, which a TOML float always has.
std::string float_text(double value) {
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

std::string variable_of(std::string_view key) {
  std::string name = "TANDEM_";
  for (const char c : key) name += static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return name;
}

std::optional<bool> parse_bool(std::string_view text) {
  if (text == "true" || text == "1" || text == "yes" || text == "on") return true;
  if (text == "false" || text == "0" || text == "no" || text == "off") return false;
  return std::nullopt;
}

// The number of letters changed, omitted, inserted or, for neighbours, swapped ("prot" for "port"
// is one).
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before;  // the row before the last
  std::vector<std::size_t> last(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::vector<std::size_t> row(b.size() + 1, i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, substituted});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before = std::exchange(last, std::move(row));
  }
  return last[b.size()];
}

}  // namespace

std::string nearest(std::string_view text, const std::vector<std::string>& candidates) {
  // The dashes of flags do not count as letters.
  const auto letters = [](std::string_view name) {
    return name.substr(std::min(name.find_first_not_of('-'), name.size()));
  };
  std::string best;
  std::size_t best_distance = std::string::npos;
  for (const std::string& candidate : candidates) {
    const std::string_view a = letters(text);
    const std::string_view b = letters(candidate);
    const std::size_t distance = edit_distance(a, b);
    // Up to a third of the letters may be wrong in a typing error; with more it is another word.
    if (3 * distance <= std::max(a.size(), b.size()) && distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

SettingsField::SettingsField(SettingsMember member, std::string key, std::string help,
                             std::string group) {
  facts_.target = member.target;
  facts_.store = std::move(member.store);
  facts_.choices = std::move(member.choices);
  facts_.meta = std::move(member.meta);
  facts_.key = std::move(key);
  facts_.help = std::move(help);
  facts_.group = std::move(group);
  facts_.default_text = std::visit(
      Overloaded{[](const bool* value) { return std::string(*value ? "true" : "false"); },
                 [](const std::int64_t* value) { return fmt::format("{}", *value); },
                 [](const double* value) { return fmt::format("{}", *value); },
                 [](const std::string* value) { return *value; },
                 [](const std::vector<std::string>* value) {
                   return fmt::format("{}", fmt::join(*value, ","));
                 }},
      facts_.target);
}

SettingsField& SettingsField::meta(std::string name) {
  facts_.meta = std::move(name);
  return *this;
}
SettingsField& SettingsField::range(double low, double high) {
  facts_.low = low;
  facts_.high = high;
  return *this;
}
SettingsField& SettingsField::at_least(double low) {
  facts_.low = low;
  return *this;
}
SettingsField& SettingsField::check(std::function<Status(const std::string&)> judge) {
  facts_.check = std::move(judge);
  return *this;
}
SettingsField& SettingsField::choices(std::vector<std::string> allowed) {
  facts_.choices = std::move(allowed);
  return *this;
}
SettingsField& SettingsField::required() {
  facts_.required = true;
  return *this;
}
SettingsField& SettingsField::secret() {
  facts_.secret = true;
  return *this;
}
SettingsField& SettingsField::old_flag(std::string name) {
  facts_.old_flag = std::move(name);
  return *this;
}
SettingsField& SettingsField::expert() {
  facts_.expert = true;
  return *this;
}
SettingsField& SettingsField::flag_only() {
  facts_.has_key = false;
  return *this;
}
SettingsField& SettingsField::flag_as(std::string name) {
  facts_.flag_name = std::move(name);
  return *this;
}
SettingsField& SettingsField::short_flag(char letter) {
  facts_.letter = letter;
  return *this;
}
SettingsField& SettingsField::many() {
  facts_.many = true;
  return *this;
}
SettingsField& SettingsField::in_file_only() {
  facts_.has_flag = false;
  return *this;
}

std::string flag_of(const SettingsFacts& facts) {
  std::string flag = "--" + (facts.flag_name.empty() ? facts.key : facts.flag_name);
  std::replace(flag.begin() + 2, flag.end(), '_', '-');
  return flag;
}

std::string environment_of(const SettingsFacts& facts) {
  return facts.has_key && facts.has_flag ? variable_of(facts.key) : std::string();
}

std::string value_name_of(const SettingsFacts& facts) {
  if (!facts.meta.empty()) return facts.meta;
  if (!facts.choices.empty()) return fmt::format("{}", fmt::join(facts.choices, "|"));
  return std::visit(Overloaded{[](const bool*) { return std::string(); },
                               [](const std::int64_t*) { return std::string("N"); },
                               [](const double*) { return std::string("X"); },
                               [](const auto*) { return std::string("TEXT"); }},
                    facts.target);
}

std::string value_text_of(const SettingsFacts& facts) {
  if (facts.secret && facts.source != "default") return "(set)";
  return std::visit(
      Overloaded{[](const bool* value) { return std::string(*value ? "true" : "false"); },
                 [](const std::int64_t* value) { return fmt::format("{}", *value); },
                 [](const double* value) { return float_text(*value); },
                 [](const std::string* value) { return quote(*value); },
                 [](const std::vector<std::string>* value) { return quote_list(*value); }},
      facts.target);
}

Status SettingsField::bad(std::string_view problem) const {
  if (facts_.source == "default") return invalid("{} {}", facts_.key, problem);
  return invalid("{} {} (from {})", facts_.key, problem, facts_.source);
}

Status SettingsField::set(const std::vector<std::string>& texts, std::string source) {
  facts_.source = std::move(source);
  if (auto** list = std::get_if<std::vector<std::string>*>(&facts_.target)) {
    **list = texts;
    return {};
  }
  if (texts.size() != 1) return bad("takes one value");
  const std::string& text = texts.front();
  // A secret's value must not reach a message.
  const std::string shown = facts_.secret ? "that" : fmt::format("'{}'", text);
  return std::visit(Overloaded{[&](bool* value) -> Status {
                                 const auto parsed = parse_bool(text);
                                 if (!parsed)
                                   return bad(fmt::format("must be true or false, not {}", shown));
                                 *value = *parsed;
                                 return {};
                               },
                               [&](std::int64_t* value) -> Status {
                                 const auto parsed = parse_number<std::int64_t>(text);
                                 if (!parsed)
                                   return bad(fmt::format("must be a whole number, not {}", shown));
                                 *value = *parsed;
                                 return {};
                               },
                               [&](double* value) -> Status {
                                 const auto parsed = parse_number<double>(text);
                                 if (!parsed)
                                   return bad(fmt::format("must be a number, not {}", shown));
                                 *value = *parsed;
                                 return {};
                               },
                               [&](std::string* value) -> Status {
                                 *value = text;
                                 return {};
                               },
                               [](std::vector<std::string>*) -> Status { return {}; }},
                    facts_.target);
}

Status SettingsField::validate() const {
  const auto check_range = [this](double value) -> Status {
    if (facts_.low && facts_.high && (value < *facts_.low || value > *facts_.high)) {
      return bad(
          fmt::format("must be between {} and {}, not {}", *facts_.low, *facts_.high, value));
    }
    if (facts_.low && value < *facts_.low)
      return bad(fmt::format("must be at least {}, not {}", *facts_.low, value));
    return {};
  };
  const auto check_text = [this](const std::string& text) -> Status {
    if (facts_.check) {
      if (const Status judged = facts_.check(text); !judged) return bad(judged.message());
    }
    if (facts_.choices.empty() ||
        std::find(facts_.choices.begin(), facts_.choices.end(), text) != facts_.choices.end()) {
      return {};
    }
    return bad(fmt::format("must be {}, not '{}'", fmt::join(facts_.choices, ", "), text));
  };
  const auto missing = [this]() -> Status {
    const std::string variable = environment_of(facts_);
    return invalid(
        "{} is missing; give {} {}{}{}", facts_.key, flag_of(facts_), value_name_of(facts_),
        variable.empty() ? "" : ", or set " + variable,
        facts_.has_key ? fmt::format(", or write {} in the config file", facts_.key) : "");
  };
  return std::visit(Overloaded{[](const bool*) -> Status { return {}; },
                               [&](const std::int64_t* value) {
                                 return check_range(static_cast<double>(*value));
                               },
                               [&](const double* value) { return check_range(*value); },
                               [&](const std::string* value) -> Status {
                                 if (facts_.required && value->empty()) return missing();
                                 // Most likely a variable that should hold the secret is empty.
                                 if (facts_.secret && value->empty() && facts_.source != "default")
                                   return bad("is empty; give a value or leave it out");
                                 return check_text(*value);
                               },
                               [&](const std::vector<std::string>* value) -> Status {
                                 if (facts_.required && value->empty()) return missing();
                                 for (const std::string& text : *value)
                                   TANDEM_TRY(check_text(text));
                                 return {};
                               }},
                    facts_.target);
}

SettingsField& SettingsTable::add(SettingsMember member, std::string key, std::string help) {
  TANDEM_CHECK(find(key) == nullptr, "setting '{}' is in the table twice", key);
  fields_.push_back(SettingsField(std::move(member), std::move(key), std::move(help), group_));
  return fields_.back();
}

SettingsField* SettingsTable::find(std::string_view key) {
  const auto found = std::find_if(fields_.begin(), fields_.end(), [&](const SettingsField& field) {
    return field.facts().key == key;
  });
  return found == fields_.end() ? nullptr : &*found;
}

std::string SettingsTable::nearest_key(std::string_view key,
                                       const std::vector<std::string>& others) const {
  std::vector<std::string> keys;
  for (const SettingsField& field : fields_) {
    if (field.facts().has_key) keys.push_back(field.facts().key);
  }
  keys.insert(keys.end(), others.begin(), others.end());  // first if equally near: the table's
  return nearest(key, keys);
}

Status SettingsTable::load_environment(const Lookup& lookup) {
  for (const Retired& retired : retired_) {
    const std::string name = variable_of(retired.key);
    if (lookup(name.c_str()) != nullptr) return check_retired(retired.key, name);
  }
  for (SettingsField& field : fields_) {
    const std::string name = environment_of(field.facts());
    if (name.empty()) continue;
    const char* text = lookup(name.c_str());
    if (text == nullptr) continue;
    std::vector<std::string> texts;
    if (!is_list(field.facts())) {
      texts.emplace_back(text);
    } else {
      std::string_view rest = text;
      while (!rest.empty()) {
        const std::size_t comma = rest.find(',');
        texts.emplace_back(rest.substr(0, comma));
        rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
      }
    }
    TANDEM_TRY(field.set(texts, name));
  }
  return {};
}

void SettingsTable::retire(std::string key, std::string remedy) {
  TANDEM_CHECK(find(key) == nullptr, "setting '{}' is retired and in the table", key);
  retired_.push_back({std::move(key), std::move(remedy)});
}

Status SettingsTable::check_retired(std::string_view key, std::string_view source) const {
  const auto found = std::ranges::find(retired_, key, &Retired::key);
  if (found == retired_.end()) return {};
  return invalid("{} is no longer a setting (from {}); {}", key, source, found->remedy);
}

Status SettingsTable::validate() const {
  for (const SettingsField& field : fields_) TANDEM_TRY(field.validate());
  for (const SettingsField& field : fields_) {
    if (field.facts().store && field.facts().source != "default") field.facts().store();
  }
  return {};
}

std::string SettingsTable::to_toml() const {
  std::string out;
  for (const SettingsField& field : fields_) {
    if (!field.facts().has_key || !field.facts().has_flag) continue;
    const bool hidden = field.facts().secret && field.facts().source != "default";
    out += fmt::format("{}{} = {}  # {}\n", hidden ? "# " : "", field.facts().key,
                       value_text_of(field.facts()), field.facts().source);
  }
  return out;
}

}  // namespace tandem
