// Input: a chat template, a zero byte, and the JSON to render: "messages" and variables.
#include <nlohmann/json.hpp>

#include "engine/tokenizer/jinja/chat_template.h"
#include "tests/fuzz/targets.h"

namespace tandem::fuzz {
namespace {

ChatInput input_of(std::string_view json) {
  ChatInput input;
  input.messages = {{{"role", "system"}, {"content", " Be brief. "}},
                    {{"role", "user"}, {"content", "H\xC3\xA9llo"}},
                    {{"role", "assistant"}, {"content", nullptr}}};
  auto object = nlohmann::ordered_json::parse(json, nullptr, false);
  if (!object.is_object()) return input;
  if (const auto found = object.find("messages"); found != object.end() && found->is_array()) {
    input.messages = *found;
    object.erase("messages");
  }
  input.continue_final_message = object.contains("continue_final_message");
  input.variables = std::move(object);
  return input;
}

}  // namespace

void fuzz_template(Bytes bytes) {
  const auto [source, json] = split_text(text_of(bytes));
  // Long or deep JSON is refused before it reaches a template.
  if (json.size() > 4096) return;
  const auto parsed = ChatTemplate::parse(source, {{"bos_token", "<s>"}, {"eos_token", "</s>"}});
  if (!parsed) return;
  (void)(*parsed)->reads_content_parts();
  RenderLimits limits;
  limits.timeout = std::chrono::milliseconds(100);
  (void)(*parsed)->render(input_of(json), limits);
}

}  // namespace tandem::fuzz
