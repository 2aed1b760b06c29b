#include "engine/server/tool_calls/tool_constraint.h"

#include <utility>

#include "base/json/json_text.h"

namespace tandem {
namespace {

using Json = nlohmann::ordered_json;

// The exact syntax of calls per format, as the models of the family are trained to write it, so
// that a grammar does not force unlikely tokens.
struct Layout {
  const char* list_begin;
  const char* call_begin;
  const char* arguments;  // name of the member
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

// The schema of a tag is its own root, so that "#/$defs/.." still resolves.
Json schema_of(const ToolFunction& tool) {
  if (!tool.parameters.is_object() || tool.parameters.empty()) {
    return {{"type", "object"}, {"properties", Json::object()}};
  }
  if (tool.parameters.contains("type")) return tool.parameters;
  Json schema = {{"type", "object"}};
  for (const auto& [name, value] : tool.parameters.items()) {
    // operator[] would search all members for each.
    schema.get_ref<Json::object_t&>().emplace_back(name, value);
  }
  return schema;
}

Json tag_of(const ToolFunction& tool, const Layout& layout) {
  const std::string begin = std::string(layout.call_begin) +
                            "{\"name\": " + Json(tool.name).dump() + ", \"" + layout.arguments +
                            "\": ";
  return {
      {"type", "tag"},
      {"begin", begin},
      {"content",
       {{"type", "json_schema"}, {"json_schema", schema_of(tool)}, {"best_effort", !tool.strict}}},
      {"end", std::string("}") + layout.call_end}};
}

// The grammar of calls to any of the tools, or to the named one.
Json calls_of(const ToolUse& use, const Layout& layout) {
  const bool named = use.choice.kind == ToolChoice::Kind::named;
  Json tags = Json::array();
  for (const ToolFunction& tool : use.tools) {
    if (!named || tool.name == use.choice.name) tags.push_back(tag_of(tool, layout));
  }
  Json calls = {{"type", "tags_with_separator"},
                {"tags", std::move(tags)},
                {"separator", layout.separator},
                {"at_least_one", true},
                {"stop_after_first", named || !use.parallel}};
  if (layout.list_begin[0] == '\0') return calls;
  return {{"type", "tag"},
          {"begin", layout.list_begin},
          {"content", std::move(calls)},
          {"end", layout.list_end}};
}

TextConstraint as_tag(Json format) {
  const Json root = {{"type", "structural_tag"}, {"format", std::move(format)}};
  return {TextConstraint::Kind::structural_tag,
          root.dump(-1, ' ', false, Json::error_handler_t::replace)};
}

// Converts a constraint to the format of a structural tag; null if it cannot be parsed.
Json format_of(const TextConstraint& text) {
  using Kind = TextConstraint::Kind;
  switch (text.kind) {
    case Kind::json_object:
      return {{"type", "json_schema"}, {"json_schema", {{"type", "object"}}}};
    case Kind::regex:
      return {{"type", "regex"}, {"pattern", text.text}};
    case Kind::grammar:
      return {{"type", "grammar"}, {"grammar", text.text}};
    case Kind::json_schema: {
      Json schema = Json::parse(text.text, nullptr, /*allow_exceptions=*/false);
      if (!schema.is_object()) return nullptr;
      return {{"type", "json_schema"}, {"json_schema", std::move(schema)}};
    }
    case Kind::structural_tag: {
      Json tag = Json::parse(text.text, nullptr, /*allow_exceptions=*/false);
      return tag.is_object() && tag.contains("format") ? tag["format"] : Json();
    }
    case Kind::none:
      break;
  }
  return nullptr;
}

}  // namespace

ToolFormat format_of(const ToolUse& use, ToolFormat served) {
  if (use.tools.empty() || use.choice.kind == ToolChoice::Kind::none) return ToolFormat::none;
  return use.is_enforced() && served == ToolFormat::none ? ToolFormat::json : served;
}

TextConstraint tool_constraint(const ToolUse& use, ToolFormat format) {
  if (!use.is_enforced()) return {};
  return as_tag(calls_of(use, layout_of(format)));
}

TextConstraint text_or_calls(const TextConstraint& text, const ToolUse& use, ToolFormat format) {
  if (text.kind == TextConstraint::Kind::none || format == ToolFormat::none) return text;
  constexpr int kMostDepth = kMaxJsonDepth - 8;  // leaves room for the calls around it
  if (nests_deeper_than(text.text, kMostDepth)) return text;
  Json format_of_text = format_of(text);
  if (format_of_text.is_null()) return text;  // its compiler reports the error
  Layout layout = layout_of(format);
  if (format == ToolFormat::mistral) layout.list_begin = "[TOOL_CALLS][";
  return as_tag({{"type", "or"}, {"elements", {std::move(format_of_text), calls_of(use, layout)}}});
}

bool begins_with_call(const ToolUse& use, ToolFormat format) {
  return use.is_enforced() && (format == ToolFormat::mistral || format == ToolFormat::json);
}

}  // namespace tandem
