// The chat templates in the folder of a checkpoint or an adapter: one for all chats, and optionally
// another for those with tools.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "engine/tokenizer/jinja/chat_template.h"

namespace tandem {

// Immutable after loading; thread-safe.
class ChatTemplates {
 public:
  // Reads one of the folder's files; not_found if it does not exist.
  using ReadFile = std::function<Result<std::string>(const std::string& name)>;

  // Loads chat_template.jinja and additional_chat_templates/tool_use.jinja, or
  // tokenizer_config.json (a string, or a list of named templates). The special tokens are those of
  // tokenizer_config.json or special_tokens_map.json, and those of `tokens` for any that neither
  // contains. not_found: there is no template. A template that cannot be parsed is not an error
  // here, but in choose().
  static Result<std::unique_ptr<ChatTemplates>> load(
      const ReadFile& read,
      const nlohmann::ordered_json& tokens = nlohmann::ordered_json::object());
  static Result<std::unique_ptr<ChatTemplates>> load(const std::filesystem::path& dir);
  // Makes one template for all chats, with the special tokens of the checkpoint whose files `read`
  // reads. Fails if it cannot be parsed.
  static Result<std::unique_ptr<ChatTemplates>> with_template(std::string_view source,
                                                              const ReadFile& read);
  static std::unique_ptr<ChatTemplates> of(std::unique_ptr<ChatTemplate> one);

  // Returns the template for chats with or without tools; invalid_argument if it cannot be parsed
  // or does not exist.
  Result<const ChatTemplate*> choose(bool with_tools) const;
  // Returns the first failure that choose() can return; ok if there is none.
  Status problem() const;
  // Parses a request's own template with the special tokens of this object.
  Result<std::unique_ptr<ChatTemplate>> parse_another(std::string_view source) const;

  // Returns the concatenated texts of all templates, for searches.
  std::string sources() const;
  const nlohmann::ordered_json& special_tokens() const { return tokens_; }
  bool same_as(const ChatTemplates& other) const;

 private:
  struct Named {
    std::string source;
    Result<std::unique_ptr<ChatTemplate>> parsed;
  };
  ChatTemplates() = default;
  static std::optional<Named> parse(const std::optional<std::string>& source,
                                    const std::string& where, const nlohmann::ordered_json& tokens);

  nlohmann::ordered_json tokens_ = nlohmann::ordered_json::object();
  std::optional<Named> default_;
  std::optional<Named> tool_use_;
};

}  // namespace tandem
