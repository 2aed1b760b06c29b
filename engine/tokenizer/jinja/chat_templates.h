// The chat templates that a folder brings, of a checkpoint or of an adapter: one for all chats, and
// maybe another for those with tools.
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
  // Reads one of a folder's files; not_found where there is none.
  using ReadFile = std::function<Result<std::string>(const std::string& name)>;

  // From chat_template.jinja and additional_chat_templates/tool_use.jinja, or tokenizer_config.json
  // (a string, or a list of named templates), with the special tokens that tokenizer_config.json or
  // special_tokens_map.json names; `tokens` for those that neither does. not_found: there is no
  // template. One that cannot be parsed is no failure here, but of choose().
  static Result<std::unique_ptr<ChatTemplates>> load(
      const ReadFile& read,
      const nlohmann::ordered_json& tokens = nlohmann::ordered_json::object());
  static Result<std::unique_ptr<ChatTemplates>> load(const std::filesystem::path& dir);
  // One template for all chats, with the special tokens of the checkpoint in DIR. Fails when it
  // cannot be parsed.
  static Result<std::unique_ptr<ChatTemplates>> with_template(std::string_view source,
                                                              const std::filesystem::path& dir);
  static std::unique_ptr<ChatTemplates> of(std::unique_ptr<ChatTemplate> one);

  // The template of a chat with tools or without; invalid_argument where it cannot be parsed or is
  // not there.
  Result<const ChatTemplate*> choose(bool with_tools) const;
  // The first failure of choose(), whatever it is asked; ok where there is none.
  Status problem() const;
  // A request's own template, with these special tokens.
  Result<std::unique_ptr<ChatTemplate>> parse_another(std::string_view source) const;

  // All their texts, for who looks for what they print.
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
