#include "engine/server/messages/request/chat_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/json/json_equals.h"
#include "base/json/json_release.h"
#include "engine/server/messages/ordered_json.h"

namespace tandem {
namespace {

using Json = nlohmann::ordered_json;

const Json* member(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

bool has_text(const Json& object, const char* name) {
  const Json* found = member(object, name);
  return found != nullptr && found->is_string();
}

bool good_parts(const Json& content, std::string& reason) {
  if (!content.is_array()) return false;
  for (const Json& part : content) {
    if (!part.is_object() || !has_text(part, "type")) return false;
    if (!is_text(*member(part, "type"), "text")) {
      reason = "this model reads text only, not parts of another type";
      return false;
    }
    if (!has_text(part, "text")) return false;
  }
  return true;
}

bool good_content(const Json& message, std::string& reason) {
  const Json* content = member(message, "content");
  if (content == nullptr || content->is_null()) {
    return is_text(*member(message, "role"), "assistant");
  }
  return content->is_string() || good_parts(*content, reason);
}

// Converts the arguments of tool calls, {"function": {"name", "arguments"}}: the text of an object
// becomes that object, and absent arguments an empty one. Any other arguments, such as truncated
// ones, are kept as they are, because the client received them from this server in an earlier
// answer.
bool parse_arguments(Json& calls, std::string& reason) {
  if (calls.is_null()) return true;
  reason =
      "'tool_calls' must be a list of {\"function\": {\"name\": string, \"arguments\": an "
      "object, or JSON text of one}}";
  if (!calls.is_array()) return false;
  for (Json& call : calls) {
    const auto function = call.is_object() ? call.find("function") : call.end();
    if (!call.is_object() || function == call.end() || !function->is_object()) return false;
    if (!has_text(*function, "name")) return false;
    const auto arguments = function->find("arguments");
    if (arguments == function->end()) {
      append_member(*function, "arguments", Json::object());
    } else if (arguments->is_null()) {
      *arguments = Json::object();
    } else if (arguments->is_string()) {
      const auto& text = arguments->get_ref<const std::string&>();
      const bool blank = text.find_first_not_of(" \t\r\n") == std::string::npos;
      std::optional<Json> parsed = blank ? Json::object() : parse_in_order(text);
      if (parsed && parsed->is_null()) parsed = Json::object();
      if (parsed && parsed->is_object()) *arguments = std::move(*parsed);
      if (parsed) empty_from_leaves(*parsed);
    }
  }
  reason.clear();
  return true;
}

// Removes null members, as transformers does: templates handle absent members, but print null ones
// as "None".
void drop_nulls(Json& message) {
  Json kept = Json::object();
  const EmptiedFromLeaves at_end(kept);
  for (auto& [name, value] : message.items())
    if (!value.is_null()) append_member(kept, name, std::move(value));
  message.swap(kept);
}

// Reasoning has several member names; templates read reasoning_content or thinking.
void name_reasoning(Json& message) {
  for (const char* name : {"reasoning_content", "thinking", "reasoning"}) {
    const Json* found = member(message, name);
    if (found == nullptr) continue;
    Json reasoning = *found;
    const EmptiedFromLeaves at_end(reasoning);
    if (member(message, "thinking") == nullptr) {
      Json with = Json::object();
      const EmptiedFromLeaves old_at_end(with);
      append_member(with, "thinking", reasoning);
      for (auto& [key, value] : message.items()) append_member(with, key, std::move(value));
      message.swap(with);
    }
    if (member(message, "reasoning_content") == nullptr) {
      append_member(message, "reasoning_content", reasoning);
    }
    return;
  }
}

bool all_objects(const Json& list) {
  return list.is_array() &&
         std::all_of(list.begin(), list.end(), [](const Json& entry) { return entry.is_object(); });
}

}  // namespace

bool take_messages(Json& value, ChatInput& chat, std::string& reason) {
  if (!value.is_array() || value.empty()) return false;
  chat.messages = std::move(value);
  for (Json& message : chat.messages) {
    if (!message.is_object() || !has_text(message, "role")) return false;
    if (!good_content(message, reason)) return false;
    if (const auto calls = message.find("tool_calls");
        calls != message.end() && !parse_arguments(*calls, reason)) {
      return false;
    }
    drop_nulls(message);
    name_reasoning(message);
  }
  return true;
}

bool take_documents(Json& value, ChatInput& chat, std::string&) {
  if (!all_objects(value)) return false;
  append_member(chat.variables, "documents", std::move(value));
  return true;
}

bool take_template_kwargs(Json& value, ChatInput& chat, std::string& reason) {
  static constexpr std::array<std::string_view, 6> kFields = {
      "messages",      "tools",
      "documents",     "add_generation_prompt",
      "chat_template", "continue_final_message"};
  if (!value.is_object()) return false;
  for (auto& [name, variable] : value.items()) {
    if (std::find(kFields.begin(), kFields.end(), name) != kFields.end()) {
      reason = fmt::format("'{}' is a field of the request itself", name);
      return false;
    }
    append_member(chat.variables, name, std::move(variable));
  }
  return true;
}

void complete_variables(ChatInput& chat) {
  for (const char* name : {"tools", "documents"})
    if (!chat.variables.contains(name)) append_member(chat.variables, name, nullptr);
}

}  // namespace tandem
