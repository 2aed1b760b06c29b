#include "engine/server/tool_calls/tool_constraint.h"

#include <utility>

#include "engine/service/engine_defaults.h"

namespace tandem {
namespace {

using Json = nlohmann::ordered_json;

// How a format writes calls: as models of the family are taught to, so that a grammar leads them
// where they would go.
struct Layout {
  const char* list_begin;
  const char* call_begin;
  const char* arguments;  // the member's name
  const char* call_end;
  const char* separator;
  const char* list_end;
};

Layout layout_of(ToolFormat format) {
  switch (format) {
    case ToolFormat::llama3:
      return {"", "", "parameters", "", "; ", ""};
    case ToolFormat::hermes:
      return {"", "<tool_call>\n", "arguments", "\n</tool_call>", "\n", ""};
    case ToolFormat::mistral:
      return {"[", "", "arguments", "", ", ", "]"};
    case ToolFormat::json:
    case ToolFormat::none:
      break;
  }
  return {"[", "", "parameters", "", ", ", "]"};
}

// Each tag's schema is a root of its own, so that "#/$defs/.." leads where it did.
Json schema_of(const ToolFunction& tool) {
  if (!tool.parameters.is_object() || tool.parameters.empty()) {
    return {{"type", "object"}, {"properties", Json::object()}};
  }
  if (tool.parameters.contains("type")) return tool.parameters;
  Json schema = {{"type", "object"}};
  for (const auto& [name, value] : tool.parameters.items()) {
    // operator[] would look through all members for each.
    schema.get_ref<Json::object_t&>().emplace_back(name, value);
  }
  return schema;
}

Json tag_of(const ToolFunction& tool, const Layout& layout) {
  const std::string begin = std::string(layout.call_begin) +
                            "{\"name\": " + Json(tool.name).dump() + ", \"" + layout.arguments +
                            "\": ";
  return {{"type", "tag"},
          {"begin", begin},
          {"content",
           {{"type", "json_schema"},
            {"json_schema", schema_of(tool)},
            {"max_whitespace_cnt", engine_defaults::kMaxJsonWhitespace}}},
          {"end", std::string("}") + layout.call_end}};
}

}  // namespace

ToolFormat format_of(const ToolUse& use, ToolFormat served) {
  if (use.tools.empty() || use.choice.kind == ToolChoice::Kind::none) return ToolFormat::none;
  return use.is_enforced() && served == ToolFormat::none ? ToolFormat::json : served;
}

TextConstraint tool_constraint(const ToolUse& use, ToolFormat format) {
  if (!use.is_enforced()) return {};
  const bool named = use.choice.kind == ToolChoice::Kind::named;
  const Layout layout = layout_of(format);
  Json tags = Json::array();
  for (const ToolFunction& tool : use.tools) {
    if (!named || tool.name == use.choice.name) tags.push_back(tag_of(tool, layout));
  }
  Json calls = {{"type", "tags_with_separator"},
                {"tags", std::move(tags)},
                {"separator", layout.separator},
                {"at_least_one", true},
                {"stop_after_first", named || !use.parallel}};
  if (layout.list_begin[0] != '\0') {
    calls = {{"type", "tag"},
             {"begin", layout.list_begin},
             {"content", std::move(calls)},
             {"end", layout.list_end}};
  }
  const Json root = {{"type", "structural_tag"}, {"format", std::move(calls)}};
  return {TextConstraint::Kind::structural_tag,
          root.dump(-1, ' ', false, Json::error_handler_t::replace)};
}

bool begins_with_call(const ToolUse& use, ToolFormat format) {
  return use.is_enforced() && (format == ToolFormat::mistral || format == ToolFormat::json);
}

}  // namespace tandem
