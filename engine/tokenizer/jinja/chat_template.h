// A chat template: the Jinja subset that published checkpoints use, interpreted. What the
// interpreter does not know it refuses when the template is parsed, by name.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/status.h"

namespace tandem {

// What a template is given. Members of objects keep their order, which tojson shows.
struct ChatInput {
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();
  // Further variables by name: tools, documents, what a request adds.
  nlohmann::ordered_json variables = nlohmann::ordered_json::object();
  bool add_generation_prompt = true;
  // The text ends where the last message's content does, for the model to go on with.
  bool continue_final_message = false;
};

// When a rendering is ended.
struct RenderLimits {
  const std::atomic<bool>* stopped = nullptr;  // true: its thread is wanted back; `unavailable`
  const Clock* clock = nullptr;                // null: the steady clock
  Duration timeout = std::chrono::seconds(5);
};

// Immutable after parsing; render() is thread-safe.
class ChatTemplate {
 public:
  // `special_tokens` has bos_token, eos_token, ... as strings, visible to the template by name.
  static Result<std::unique_ptr<ChatTemplate>> parse(std::string_view source,
                                                     const nlohmann::ordered_json& special_tokens);
  ~ChatTemplate();

  // raise_exception in the template is an invalid_argument with its message. Work, memory and time
  // are bounded, whatever the template and its input: it cannot hang the server.
  Result<std::string> render(const ChatInput& input, const RenderLimits& limits = {}) const;

  // It walks over the parts of a message's content; else it wants one text.
  bool reads_content_parts() const;
  std::string_view source() const;
  const nlohmann::ordered_json& special_tokens() const;

 private:
  struct Impl;
  explicit ChatTemplate(std::unique_ptr<const Impl> impl);
  std::unique_ptr<const Impl> impl_;
};

}  // namespace tandem
