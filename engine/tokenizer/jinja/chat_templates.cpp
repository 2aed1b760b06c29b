#include "engine/tokenizer/jinja/chat_templates.h"

#include <utility>

#include "base/file/file.h"
#include "base/json/json_equals.h"
#include "base/json/json_text.h"

namespace tandem {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kMaxFileBytes = 64U << 20;  // tokenizer_config.json may list all tokens
constexpr int kMaxConfigDepth = 32;

constexpr const char* kConfigName = "tokenizer_config.json";
constexpr const char* kTokensName = "special_tokens_map.json";
constexpr const char* kTemplateName = "chat_template.jinja";
constexpr const char* kToolUseName = "additional_chat_templates/tool_use.jinja";

// Returns the file's text; nothing if the file does not exist.
Result<std::optional<std::string>> read_if_there(const ChatTemplates::ReadFile& read,
                                                 const char* name) {
  Result<std::string> text = read(name);
  if (text) return std::optional<std::string>(std::move(*text));
  if (text.status().code() == StatusCode::not_found) return std::optional<std::string>();
  return text.status();
}

// Returns an object, which is empty if the file does not exist.
Result<Json> read_config(const ChatTemplates::ReadFile& read, const char* name) {
  TANDEM_ASSIGN(const std::optional<std::string> text, read_if_there(read, name));
  if (!text) return Json::object();
  if (nests_deeper_than(*text, kMaxConfigDepth))
    return invalid("{}: nested deeper than {}", name, kMaxConfigDepth);
  Json config;
  try {
    config = Json::parse(*text);
  } catch (const Json::exception& e) {
    return invalid("{}: {}", name, e.what());
  }
  if (!config.is_object()) return invalid("{} must be an object", name);
  return config;
}

// Adds the special tokens of a config, which are strings or objects with a "content". Existing
// entries are kept.
void add_special_tokens(const Json& config, Json& tokens) {
  for (const auto& [key, value] : config.items()) {
    if (!key.ends_with("_token") || tokens.contains(key)) continue;
    if (value.is_string()) tokens[key] = value;
    if (!value.is_object()) continue;
    if (const auto content = value.find("content"); content != value.end() && content->is_string())
      tokens[key] = *content;
  }
}

// Returns the template of this name from a list; a single template has the name "default".
std::optional<std::string> template_of(const Json& config, std::string_view wanted) {
  const auto found = config.find("chat_template");
  if (found == config.end()) return std::nullopt;
  if (found->is_string() && wanted == "default") return found->get<std::string>();
  if (!found->is_array()) return std::nullopt;
  for (const Json& entry : *found) {
    if (!entry.is_object()) continue;
    const auto name = entry.find("name");
    const auto source = entry.find("template");
    if (name == entry.end() || !is_text(*name, wanted)) continue;
    if (source != entry.end() && source->is_string()) return source->get<std::string>();
  }
  return std::nullopt;
}

}  // namespace

std::optional<ChatTemplates::Named> ChatTemplates::parse(const std::optional<std::string>& source,
                                                         const std::string& where,
                                                         const Json& tokens) {
  if (!source) return std::nullopt;
  Result<std::unique_ptr<ChatTemplate>> parsed = ChatTemplate::parse(*source, tokens);
  if (!parsed) parsed = parsed.status().with_context(where);
  return Named{*source, std::move(parsed)};
}

Result<std::unique_ptr<ChatTemplates>> ChatTemplates::load(const ReadFile& read,
                                                           const Json& tokens) {
  TANDEM_ASSIGN(const Json config, read_config(read, kConfigName));
  TANDEM_ASSIGN(const Json token_map, read_config(read, kTokensName));
  std::unique_ptr<ChatTemplates> result(new ChatTemplates());
  for (const Json* named : {&config, &token_map, &tokens})
    add_special_tokens(*named, result->tokens_);
  TANDEM_ASSIGN(std::optional<std::string> source, read_if_there(read, kTemplateName));
  TANDEM_ASSIGN(std::optional<std::string> tool_use, read_if_there(read, kToolUseName));
  // Separate template files are the newer form and replace the whole list.
  const bool has_file = source.has_value();
  if (!has_file) source = template_of(config, "default");
  const bool has_tool_file = tool_use.has_value();
  if (!has_file && !has_tool_file) tool_use = template_of(config, "tool_use");
  if (!source && !tool_use) {
    return error(StatusCode::not_found, "there is no chat template ({}, or chat_template in {})",
                 kTemplateName, kConfigName);
  }
  result->default_ = parse(source, has_file ? kTemplateName : kConfigName, result->tokens_);
  result->tool_use_ = parse(tool_use, has_tool_file ? kToolUseName : kConfigName, result->tokens_);
  return result;
}

Result<std::unique_ptr<ChatTemplates>> ChatTemplates::load(const std::filesystem::path& dir) {
  return load([&](const std::string& name) { return read_text_file(dir / name, kMaxFileBytes); });
}

Result<std::unique_ptr<ChatTemplates>> ChatTemplates::with_template(std::string_view source,
                                                                    const ReadFile& read) {
  TANDEM_ASSIGN(auto result, load([&](const std::string& name) -> Result<std::string> {
                  if (name == kTemplateName) return std::string(source);
                  if (name == kToolUseName) return error(StatusCode::not_found, "not asked for");
                  return read(name);
                }));
  TANDEM_TRY(result->problem());
  return result;
}

std::unique_ptr<ChatTemplates> ChatTemplates::of(std::unique_ptr<ChatTemplate> one) {
  std::unique_ptr<ChatTemplates> result(new ChatTemplates());
  const std::string source(one->source());
  result->tokens_ = one->special_tokens();
  result->default_ = Named{source, std::move(one)};
  return result;
}

Result<const ChatTemplate*> ChatTemplates::choose(bool with_tools) const {
  const std::optional<Named>& named = with_tools && tool_use_ ? tool_use_ : default_;
  if (!named) {
    return invalid(
        "there is a template for chats with tools alone, and none named \"default\"; give one by "
        "--chat-template FILE");
  }
  if (!named->parsed) return named->parsed.status();
  return static_cast<const ChatTemplate*>(named->parsed->get());
}

Status ChatTemplates::problem() const {
  for (const bool with_tools : {false, true}) {
    if (const auto chosen = choose(with_tools); !chosen) return chosen.status();
  }
  return {};
}

Result<std::unique_ptr<ChatTemplate>> ChatTemplates::parse_another(std::string_view source) const {
  return ChatTemplate::parse(source, tokens_);
}

std::string ChatTemplates::sources() const {
  std::string all;
  for (const auto* named : {&tool_use_, &default_})
    if (*named) all += (*named)->source + "\n";
  return all;
}

bool ChatTemplates::same_as(const ChatTemplates& other) const {
  const auto same = [](const std::optional<Named>& a, const std::optional<Named>& b) {
    return a.has_value() == b.has_value() && (!a || a->source == b->source);
  };
  return tokens_ == other.tokens_ && same(default_, other.default_) &&
         same(tool_use_, other.tool_use_);
}

}  // namespace tandem
