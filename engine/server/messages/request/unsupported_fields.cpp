#include "engine/server/messages/request/unsupported_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>

#include "engine/server/messages/request/request_parsing.h"

namespace tandem {
namespace {

using nlohmann::json;

ApiError not_supported(const std::string& name, const json& accepted, std::string_view instead) {
  std::string only;
  for (const json& value : accepted) {
    only += only.empty() ? ": only " : " or ";
    only += value.dump();
  }
  ApiError error = bad_field(name, "'{}' is not supported yet{}{}{}", name, only,
                             instead.empty() ? "" : "; ", instead);
  error.code = "not_supported";
  return error;
}

bool is_empty(const json& value) {
  return value.is_null() || (value.is_structured() && value.empty()) ||
         (value.is_string() && value.get_ref<const std::string&>().empty());
}

// True for values without effect in fields of another kind of call, because many clients set every
// field.
bool asks_for_nothing(const json& value) {
  return value == false || is_empty(value);
}

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
}

// Returns the lower-case letters of a name without separators, "maxtokens" for both "max_tokens"
// and "maxTokens", because clients in other languages use other conventions.
std::string letters_of(std::string_view name) {
  std::string letters;
  for (const char c : name) {
    if (c != '_' && c != '-') letters += lower(c);
  }
  return letters;
}

// Whether a word of the name begins with `word`: "lora" is in "lora_path" and "useLora", not in
// "exploration".
bool has_word(std::string_view name, std::string_view word) {
  for (std::size_t at = 0; at + word.size() <= name.size(); ++at) {
    const bool begins = at == 0 || !is_letter(name[at - 1]) ||
                        (lower(name[at]) != name[at] && lower(name[at - 1]) == name[at - 1]);
    const std::string_view part = name.substr(at, word.size());
    if (begins && std::ranges::equal(part, word, {}, lower)) return true;
  }
  return false;
}

// Any such name counts, because there are more than a table could list, and a request that names an
// adapter must not be answered by the base.
bool names_an_adapter(std::string_view name) {
  return has_word(name, "lora") || has_word(name, "adapter");
}

const UnsupportedField* find_unsupported(const std::string& name, unsigned where) {
  using Table = std::unordered_multimap<std::string, const UnsupportedField*>;
  static const Table table = [] {
    Table all;
    for (const UnsupportedField& field : unsupported_fields()) {
      all.emplace(letters_of(field.name), &field);
    }
    return all;
  }();
  const auto [begin, end] = table.equal_range(letters_of(name));
  const auto found = std::find_if(
      begin, end, [&](const auto& entry) { return (entry.second->where & where) != 0; });
  return found == end ? nullptr : found->second;
}

// Finds the field of this server that matches in another spelling; null if there is none.
const RequestField* find_rewritten(const std::string& name) {
  const std::string letters = letters_of(name);
  const auto fields = request_fields();
  const auto found = std::ranges::find_if(
      fields, [&](const RequestField& field) { return letters_of(field.name) == letters; });
  return found == fields.end() ? nullptr : &*found;
}

// The path below /v1/ of the first call of `where`.
const char* path_of(unsigned where) {
  constexpr std::pair<unsigned, const char*> kPaths[] = {
      {kCompletions, "completions"}, {kChat, "chat/completions"}, {kEmbeddings, "embeddings"},
      {kClassify, "classify"},       {kScore, "score"},           {kRerank, "rerank"}};
  for (const auto& [call, path] : kPaths) {
    if ((where & call) != 0) return path;
  }
  return "";
}

MaybeError check_other_field(const std::string& name, const json& value, unsigned where,
                             std::int32_t n) {
  constexpr std::size_t kMaxNameBytes = 64;  // longer names match no field
  const char* const call = where == kChat ? "chat" : path_of(where);
  if (name.size() > kMaxNameBytes) {
    warn_unknown_field(call, name);
    return std::nullopt;
  }
  if (const UnsupportedField* const field = find_unsupported(name, where)) {
    json accepted = json::parse(field->accepted);
    if (field->accepts_n) accepted.push_back(n);
    if (is_empty(value) || std::find(accepted.begin(), accepted.end(), value) != accepted.end()) {
      return std::nullopt;
    }
    return not_supported(name, accepted, field->instead);
  }
  if (std::ranges::any_of(ignored_fields(), [&](const char* each) { return name == each; })) {
    return std::nullopt;
  }
  const RequestField* const field = find_rewritten(name);
  if (field == nullptr) {
    if (names_an_adapter(name) && !asks_for_nothing(value)) {
      return not_supported(name, json::array(), "'model' or 'adapters' names the adapter");
    }
    warn_unknown_field(call, name);
    return std::nullopt;
  }
  if (asks_for_nothing(value)) return std::nullopt;
  if (name != field->name) {
    return not_supported(name, json::array(), fmt::format("give '{}'", field->name));
  }
  ApiError error =
      bad_field(name, "'{}' is a field of /v1/{}, not of this call", name, path_of(field->where));
  error.code = "not_supported";
  return error;
}

}  // namespace

json schema_of(const UnsupportedField& field) {
  std::string summary = "Not supported yet";
  if (field.accepts_n) summary += ": only the value of n";
  if (field.instead[0] != '\0') summary += std::string("; ") + field.instead;
  json schema{{"description", summary}};
  if (field.accepts_n) return schema;
  json accepted = json::parse(field.accepted);
  accepted.push_back(nullptr);
  schema["enum"] = std::move(accepted);
  return schema;
}

MaybeError check_other_fields(const json& body, unsigned where, std::int32_t n) {
  const auto fields = request_fields();
  for (auto entry = body.begin(); entry != body.end(); ++entry) {
    const std::string& name = entry.key();
    const bool known = std::any_of(fields.begin(), fields.end(), [&](const RequestField& field) {
      return (field.where & where) != 0 && name == field.name;
    });
    if (known) continue;
    if (auto error = check_other_field(name, entry.value(), where, n)) return error;
  }
  return std::nullopt;
}

}  // namespace tandem
