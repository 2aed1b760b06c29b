#include "engine/server/messages/request/constraint_fields.h"

#include "base/json/json_equals.h"

#include <fmt/format.h>

#include <utility>

namespace tandem {
namespace {

using nlohmann::json;
using Ordered = nlohmann::ordered_json;
using ConstraintKind = TextConstraint::Kind;

constexpr std::size_t kMaxChoices = 1024;
constexpr std::size_t kMaxBadWordStrings = 256;
constexpr std::size_t kMaxBadWordBytes = 256;

bool set_constraint(std::string field, TextConstraint constraint, CompletionCall& call,
                    std::string& reason) {
  if (!call.constraint_field.empty()) {
    reason = fmt::format("'{}' says already what the text must be, give one of them",
                         call.constraint_field);
    return false;
  }
  call.constraint_field = std::move(field);
  call.request.constraint = std::move(constraint);
  return true;
}

bool set_schema(std::string field, const Ordered& schema, CompletionCall& call,
                std::string& reason) {
  if (schema.is_string()) {
    return set_constraint(std::move(field),
                          {ConstraintKind::json_schema, schema.get<std::string>()}, call, reason);
  }
  if (!schema.is_object()) return false;
  return set_constraint(std::move(field), {ConstraintKind::json_schema, schema.dump()}, call,
                        reason);
}

bool set_text(std::string field, ConstraintKind kind, const Ordered& value, CompletionCall& call,
              std::string& reason) {
  if (!value.is_string() || value.get_ref<const std::string&>().empty()) return false;
  return set_constraint(std::move(field), {kind, value.get<std::string>()}, call, reason);
}

// Quotes a text as a literal of the grammar.
std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      result += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      result += c;
    }
  }
  return result + '"';
}

bool set_choice(std::string field, const Ordered& value, CompletionCall& call,
                std::string& reason) {
  if (!value.is_array() || value.empty() || value.size() > kMaxChoices) return false;
  std::string grammar = "root ::= ";
  for (const Ordered& choice : value) {
    if (!choice.is_string() || choice.get_ref<const std::string&>().empty()) return false;
    if (&choice != &value.front()) grammar += " | ";
    grammar += quoted(choice.get_ref<const std::string&>());
  }
  return set_constraint(std::move(field), {ConstraintKind::grammar, std::move(grammar)}, call,
                        reason);
}

bool set_structural_tag(std::string field, const Ordered& value, CompletionCall& call,
                        std::string& reason) {
  if (!value.is_string() && !value.is_object()) return false;
  return set_constraint(
      std::move(field),
      {ConstraintKind::structural_tag, value.is_string() ? value.get<std::string>() : value.dump()},
      call, reason);
}

}  // namespace

bool take_response_format(const Ordered& value, CompletionCall& call, std::string& reason) {
  const auto type = value.is_object() ? value.find("type") : value.end();
  if (type == value.end() || !type->is_string()) return false;
  if (is_text(*type, "text")) return true;
  if (is_text(*type, "json_object")) {
    const auto schema = value.find("schema");  // as in llama.cpp, Anyscale and Together
    if (schema == value.end() || schema->is_null()) {
      return set_constraint("response_format", {ConstraintKind::json_object, {}}, call, reason);
    }
    if (set_schema("response_format", *schema, call, reason)) return true;
    if (reason.empty()) reason = "schema must be an object";
    return false;
  }
  if (is_text(*type, "structural_tag")) {
    return set_structural_tag("response_format", value, call, reason);
  }
  if (!is_text(*type, "json_schema")) return false;
  const auto wrapped = value.find("json_schema");
  if (wrapped == value.end() || !wrapped->is_object()) {
    reason = "json_schema is missing";
    return false;
  }
  const auto name = wrapped->find("name");
  if (name == wrapped->end() || !name->is_string()) {
    reason = "json_schema.name is missing";
    return false;
  }
  const auto strict = wrapped->find("strict");
  if (strict != wrapped->end() && !strict->is_null() && !strict->is_boolean()) {
    reason = "json_schema.strict is neither true nor false";
    return false;
  }
  const auto schema = wrapped->find("schema");
  if (schema == wrapped->end() || !schema->is_object()) {
    reason = "json_schema.schema must be an object";
    return false;
  }
  return set_schema("response_format", *schema, call, reason);
}

bool take_structured_outputs(const Ordered& value, CompletionCall& call, std::string& reason) {
  if (!value.is_object()) return false;
  for (const auto& [name, member] : value.items()) {
    if (member.is_null() || (name == "json_object" && member == false)) continue;
    const std::string field = "structured_outputs." + name;
    bool good = false;
    if (name == "json") {
      good = set_schema(field, member, call, reason);
    } else if (name == "regex") {
      good = set_text(field, ConstraintKind::regex, member, call, reason);
    } else if (name == "choice") {
      good = set_choice(field, member, call, reason);
    } else if (name == "grammar") {
      good = set_text(field, ConstraintKind::grammar, member, call, reason);
    } else if (name == "json_object") {
      good =
          member == true && set_constraint(field, {ConstraintKind::json_object, {}}, call, reason);
    } else if (name == "structural_tag") {
      good = set_structural_tag(field, member, call, reason);
    } else {
      reason = fmt::format("'{}' is not supported", field);
    }
    if (good) continue;
    if (reason.empty()) reason = fmt::format("'{}' is not", field);
    return false;
  }
  return true;
}

bool take_guided_json(const Ordered& value, CompletionCall& call, std::string& reason) {
  return set_schema("guided_json", value, call, reason);
}

bool take_guided_regex(const Ordered& value, CompletionCall& call, std::string& reason) {
  return set_text("guided_regex", ConstraintKind::regex, value, call, reason);
}

bool take_guided_choice(const Ordered& value, CompletionCall& call, std::string& reason) {
  return set_choice("guided_choice", value, call, reason);
}

bool take_guided_grammar(const Ordered& value, CompletionCall& call, std::string& reason) {
  return set_text("guided_grammar", ConstraintKind::grammar, value, call, reason);
}

bool take_bad_words(const json& value, CompletionCall& call, std::string&) {
  if (!value.is_array() || value.size() > kMaxBadWordStrings) return false;
  for (const json& word : value) {
    if (!word.is_string()) return false;
    const auto& text = word.get_ref<const std::string&>();
    if (text.empty() || text.size() > kMaxBadWordBytes) return false;
    call.bad_words.push_back(text);
  }
  return true;
}

}  // namespace tandem
