#include "tools/bench/serve/plan/request_body.h"

#include <fmt/format.h>

#include <iterator>

namespace tandem {
namespace {

using nlohmann::ordered_json;

std::string dump_lossy(const ordered_json& value) {
  return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

std::string ids_text(const std::vector<TokenId>& ids) {
  std::string text = "[";
  text.reserve(ids.size() * 6 + 2);
  for (const TokenId id : ids) {
    if (text.size() > 1) text += ',';
    fmt::format_to(std::back_inserter(text), "{}", id);
  }
  return text += ']';
}

}  // namespace

Result<ordered_json> parse_extra_body(const std::string& text) {
  if (text.empty()) return ordered_json(ordered_json::object());
  ordered_json parsed = ordered_json::parse(text, nullptr, false);
  if (!parsed.is_object()) {
    return invalid("extra_body must be a JSON object, {{\"top_k\": 5}} for example; not '{}'",
                   text);
  }
  return parsed;
}

std::string request_body(const BodyOptions& options, std::string_view model,
                         const LoadPrompt& prompt, const PromptMaker& maker) {
  const bool is_chat = options.dialect == Dialect::chat;
  ordered_json fields = {{"model", model},
                         {is_chat ? "max_completion_tokens" : "max_tokens", prompt.output_tokens},
                         {"stream", true},
                         {"stream_options", {{"include_usage", true}}}};
  if (options.ignore_eos) fields["ignore_eos"] = true;
  fields.update(options.sampling);
  fields.update(options.extra);
  std::string body = dump_lossy(fields);
  body.pop_back();
  // Ids are written by hand: with a JSON library thousands of them take most of a request's time.
  const bool has_ids = !prompt.ids.empty() || !prompt.pieces.empty();
  if (is_chat) {
    const ordered_json message = {{"role", "user"}, {"content", maker.text_of(prompt)}};
    return body + R"(,"messages":[)" + dump_lossy(message) + "]}";
  }
  body += R"(,"prompt":)";
  body += has_ids && !options.as_text ? ids_text(maker.ids_of(prompt))
                                      : dump_lossy(ordered_json(maker.text_of(prompt)));
  return body += '}';
}

}  // namespace tandem
