// A chat template: an interpreter for the Jinja subset that published checkpoints use. Unsupported
// constructs are refused by name when the template is parsed.
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

// The input of a template. Members of objects keep their order, which tojson shows.
struct ChatInput {
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();
  // Further variables by name: tools, documents, and those that a request adds.
  nlohmann::ordered_json variables = nlohmann::ordered_json::object();
  bool add_generation_prompt = true;
  // Ends the text after the last message's content, so that the model continues it.
  bool continue_final_message = false;
};

// Conditions that end a rendering.
struct RenderLimits {
  const std::atomic<bool>* stopped = nullptr;  // true: the thread is needed; `unavailable`
  const Clock* clock = nullptr;                // null: the steady clock
  Duration timeout = std::chrono::seconds(5);
};

// Immutable after parsing; render() is thread-safe.
class ChatTemplate {
 public:
  // `special_tokens` has bos_token, eos_token and so on as strings, which the template can use by
  // name.
  static Result<std::unique_ptr<ChatTemplate>> parse(std::string_view source,
                                                     const nlohmann::ordered_json& special_tokens);
  ~ChatTemplate();

  // A call of raise_exception in the template returns an invalid_argument with its message. Work,
  // memory and time are bounded for any template and input, so rendering cannot hang the server.
  Result<std::string> render(const ChatInput& input, const RenderLimits& limits = {}) const;

  // Whether it iterates over the parts of a message's content; otherwise it expects one text.
  bool reads_content_parts() const;
  std::string_view source() const;
  const nlohmann::ordered_json& special_tokens() const;

 private:
  struct Impl;
  explicit ChatTemplate(std::unique_ptr<const Impl> impl);
  std::unique_ptr<const Impl> impl_;
};

}  // namespace tandem
