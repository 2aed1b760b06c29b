#include "engine/server/messages/request/tool_fields.h"

#include <algorithm>
#include <string_view>

#include "base/json/json_equals.h"
#include "engine/server/messages/ordered_json.h"

namespace tandem {
namespace {

using OrderedJson = nlohmann::ordered_json;

// OpenAI's limits, except for the bytes, which are limited because a schema becomes a grammar.
constexpr std::size_t kMaxTools = 128;
constexpr std::size_t kMaxToolName = 64;
constexpr std::size_t kMaxToolBytes = 256U << 10;

template <typename AnyJson>
const AnyJson* find_value(const AnyJson& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

bool is_tool_name(std::string_view name) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  };
  return !name.empty() && name.size() <= kMaxToolName &&
         std::all_of(name.begin(), name.end(), allowed);
}

// Returns the function that a tool contains, or the tool itself.
const OrderedJson& function_of(const OrderedJson& tool) {
  const OrderedJson* function = find_value(tool, "function");
  return function == nullptr ? tool : *function;
}

// Returns the error in a function; empty if there is none.
std::string fault_of(const OrderedJson& function) {
  if (!function.is_object()) return "'function' must be an object";
  const OrderedJson* name = find_value(function, "name");
  if (name == nullptr || !name->is_string() || !is_tool_name(name->get_ref<const std::string&>())) {
    return fmt::format("a name has 1 to {} of a-z, A-Z, 0-9, _ and -", kMaxToolName);
  }
  const OrderedJson* description = find_value(function, "description");
  if (description != nullptr && !description->is_string()) {
    return "'description' must be a string";
  }
  const OrderedJson* strict = find_value(function, "strict");
  if (strict != nullptr && !strict->is_boolean()) return "'strict' must be true or false";
  const OrderedJson* parameters = find_value(function, "parameters");
  if (parameters == nullptr) return {};
  if (!parameters->is_object()) return "'parameters' must be a JSON schema";
  const OrderedJson* type = find_value(*parameters, "type");
  if (type != nullptr && !is_text(*type, "object"))
    return "'parameters' must be the schema of an object";
  return {};
}

}  // namespace

bool take_tools(OrderedJson& value, ChatInput& chat, std::string& reason) {
  if (!value.is_array()) return false;
  if (value.size() > kMaxTools) {
    reason = fmt::format("at most {} are taken", kMaxTools);
    return false;
  }
  for (std::size_t i = 0; i < value.size(); ++i) {
    const OrderedJson& tool = value[i];
    if (!tool.is_object()) return false;
    const OrderedJson* type = find_value(tool, "type");
    if (tool.contains("function") && type != nullptr && !is_text(*type, "function")) {
      reason = fmt::format("tools[{}] is of a type that is not supported", i);
      return false;
    }
    reason = fault_of(function_of(tool));
    if (reason.empty() && tool.dump().size() > kMaxToolBytes) {
      reason = fmt::format("at most {} KiB of JSON are taken", kMaxToolBytes >> 10);
    }
    if (!reason.empty()) {
      reason = fmt::format("tools[{}]: {}", i, reason);
      return false;
    }
  }
  append_member(chat.variables, "tools", value);
  return true;
}

bool take_tool_choice(const nlohmann::json& value, CompletionCall& call, std::string& reason) {
  using Kind = ToolChoice::Kind;
  ToolChoice& choice = call.tool_use.choice;
  if (value.is_string()) {
    choice.kind = is_text(value, "none")       ? Kind::none
                  : is_text(value, "required") ? Kind::required
                                               : Kind::automatic;
    return choice.kind != Kind::automatic || is_text(value, "auto");
  }
  if (!value.is_object()) return false;
  const nlohmann::json* type = find_value(value, "type");
  if (type != nullptr && is_text(*type, "allowed_tools")) {
    reason = "'allowed_tools' is not supported; give those alone in 'tools'";
    return false;
  }
  const nlohmann::json* function = find_value(value, "function");
  if (value.contains("type") && (type == nullptr || !is_text(*type, "function"))) return false;
  if (function == nullptr || !function->is_object()) return false;
  const nlohmann::json* name = find_value(*function, "name");
  if (name == nullptr || !name->is_string()) return false;
  choice = {Kind::named, name->get<std::string>()};
  return true;
}

MaybeError check_tools(CompletionCall& call) {
  ToolUse& use = call.tool_use;
  if (const OrderedJson* tools = find_value(call.chat_input.variables, "tools")) {
    for (const OrderedJson& tool : *tools) {
      const OrderedJson& function = function_of(tool);
      const OrderedJson* parameters = find_value(function, "parameters");
      const OrderedJson* strict = find_value(function, "strict");
      use.tools.push_back({function["name"].get<std::string>(),
                           parameters == nullptr ? OrderedJson() : *parameters,
                           strict != nullptr && *strict == true});
    }
  }
  if (!use.is_enforced()) return std::nullopt;
  if (use.tools.empty()) {
    return bad_field("tool_choice", "'tool_choice' asks for a call, which needs 'tools'");
  }
  const bool known = use.choice.kind == ToolChoice::Kind::required ||
                     std::any_of(use.tools.begin(), use.tools.end(), [&](const ToolFunction& tool) {
                       return tool.name == use.choice.name;
                     });
  if (known) return std::nullopt;
  return bad_field("tool_choice", "'tool_choice' names a tool that is not among 'tools'");
}

}  // namespace tandem
