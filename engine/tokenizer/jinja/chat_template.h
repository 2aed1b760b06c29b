// Chat templates: the Jinja subset that published checkpoints use, interpreted. What the
// interpreter does not know it refuses when the template is loaded, by name.
#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tandem {

// Immutable after parsing; render() is thread-safe.
class ChatTemplate {
 public:
  // `special_tokens` has bos_token, eos_token, ... as strings, visible to the template by name.
  static Result<std::unique_ptr<ChatTemplate>> parse(std::string_view source,
                                                     const nlohmann::ordered_json& special_tokens);
  // From DIR/chat_template.jinja or tokenizer_config.json (a string, or a list of named templates:
  // "default"). not_found when the checkpoint has none.
  static Result<std::unique_ptr<ChatTemplate>> load(const std::filesystem::path& dir);
  ~ChatTemplate();

  // `messages`: array of {"role", "content", ...}. `extra` is merged into the template's variables
  // (tools, documents). raise_exception in the template is an invalid_argument with its message.
  // Rendering is bounded in steps and output size; a template cannot hang the server. Members of
  // objects keep their order, which tojson shows: parse requests to ordered_json where tools
  // matter.
  Result<std::string> render(const nlohmann::ordered_json& messages, bool add_generation_prompt,
                             const nlohmann::ordered_json& extra) const;

 private:
  struct Impl;
  explicit ChatTemplate(std::unique_ptr<const Impl> impl);
  std::unique_ptr<const Impl> impl_;
};

}  // namespace tandem
