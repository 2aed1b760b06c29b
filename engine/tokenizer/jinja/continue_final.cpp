#include "engine/tokenizer/jinja/continue_final.h"

#include <nlohmann/json.hpp>

#include "engine/tokenizer/jinja/values/search.h"
#include "engine/tokenizer/jinja/values/text.h"

namespace tandem::jinja {
namespace {

constexpr std::string_view kMark = "TANDEM-GOES-ON-FROM-HERE";

// Returns the text at the end of a message; null if there is none.
nlohmann::ordered_json* last_text(nlohmann::ordered_json& message) {
  const auto content = message.find("content");
  if (content == message.end()) return nullptr;
  if (content->is_string()) return &*content;
  if (!content->is_array()) return nullptr;
  for (auto part = content->rbegin(); part != content->rend(); ++part) {
    if (!part->is_object()) continue;
    const auto text = part->find("text");
    if (text != part->end() && text->is_string()) return &*text;
  }
  return nullptr;
}

}  // namespace

Result<std::string> mark_end(nlohmann::ordered_json& messages) {
  nlohmann::ordered_json* text = messages.empty() ? nullptr : last_text(messages.back());
  if (text == nullptr)
    return invalid("continue_final_message: the last message has no text to go on from");
  std::string content = text->get<std::string>();
  text->get_ref<std::string&>().append(kMark).append(1, ' ');
  return content;
}

Result<std::string> cut_at_mark(std::string text, std::string_view content) {
  const std::size_t at = find_last(text, kMark);
  if (at == std::string_view::npos ||
      find_first(text, strip_left(strip_right(content))) == std::string_view::npos)
    return invalid(
        "continue_final_message: the chat template does not print the last message as it is");
  const bool trims = !std::string_view(text).substr(at + kMark.size()).starts_with(' ');
  text.resize(at);
  if (trims) text.resize(strip_right(text).size());
  return text;
}

}  // namespace tandem::jinja
