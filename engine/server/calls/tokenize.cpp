// POST /tokenize, POST /detokenize
#include "base/json/json_release.h"
#include "engine/server/calls/call.h"
#include "engine/server/messages/json_body.h"
#include "engine/server/messages/request/request_parsing.h"
#include "engine/server/messages/response_building.h"

namespace tandem {
namespace {

using nlohmann::json;

MaybeError take_model(const json& body, std::string& name) {
  const auto found = body.find("model");
  if (found == body.end() || found->is_null()) return std::nullopt;
  if (!found->is_string()) return bad_field("model", "'model' must be a string");
  name = found->get<std::string>();
  return std::nullopt;
}

}  // namespace

HttpResponse calls::tokenize(CallContext& context, const HttpRequest& request, const json& body) {
  const bool chat = body.contains("messages") && !body["messages"].is_null();
  std::string asked;
  GenerationRequest named;
  std::string adapter;
  bool add_special = true;
  bool with_strings = false;
  if (auto error = take_model(body, asked)) return error_response(*error);
  if (auto error = context.find_adapters(asked, named, adapter)) {
    return error_response(*error);
  }
  const std::shared_ptr<const TextCodec> codec = context.text_of(adapter);
  const TextCodec& text = *codec;
  if (auto error = take_bool(body, "add_special_tokens", add_special)) {
    return error_response(*error);
  }
  if (auto error = take_bool(body, "return_token_strs", with_strings)) {
    return error_response(*error);
  }
  std::vector<TokenId> tokens;
  if (chat) {
    CompletionCall call;
    const EmptiedFromLeaves messages_at_end(call.chat_input.messages);
    const EmptiedFromLeaves variables_at_end(call.chat_input.variables);
    const ConversationRules rules{
        .bytes = request.body, .trust_chat_template = context.options.trust_request_chat_template};
    if (auto error = parse_conversation(body, rules, call)) return error_response(*error);
    call.adapter_templates = context.templates_of(adapter);
    if (auto error = encode_chat(call, text, tokens)) return error_response(*error);
  } else {
    if (!body.contains("prompt") || !body["prompt"].is_string()) {
      return error_response(
          bad_field("prompt", "Give 'prompt', a string, or 'messages', a conversation"));
    }
    auto encoded = text.encode(body["prompt"].get_ref<const std::string&>(), add_special);
    if (!encoded) return error_response(to_api_error(encoded.status()));
    tokens = std::move(*encoded);
  }
  json response{{"count", tokens.size()},
                {"max_model_len", context.model().max_model_len},
                {"tokens", tokens},
                {"token_strs", nullptr}};
  if (with_strings) {
    response["token_strs"] = json::array();
    for (const TokenId id : tokens) response["token_strs"].push_back(text.id_to_token(id));
  }
  return json_response(response);
}

HttpResponse calls::detokenize(CallContext& context, const HttpRequest&, const json& body) {
  std::string asked;
  GenerationRequest named;
  std::string adapter;
  if (auto error = take_model(body, asked)) return error_response(*error);
  if (auto error = context.find_adapters(asked, named, adapter)) {
    return error_response(*error);
  }
  const std::shared_ptr<const TextCodec> codec = context.text_of(adapter);
  const TextCodec& text = *codec;
  const auto found = body.find("tokens");
  if (found == body.end() || !found->is_array()) {
    return error_response(bad_field("tokens", "'tokens' must be a list of token ids"));
  }
  std::vector<TokenId> tokens;
  for (const json& entry : *found) {
    const auto id = as_integer(entry);
    if (!id || *id < 0 || static_cast<std::uint64_t>(*id) >= text.vocab_size()) {
      return error_response(bad_field("tokens", "'tokens' must be a list of token ids from 0 to {}",
                                      text.vocab_size() - 1));
    }
    tokens.push_back(static_cast<TokenId>(*id));
  }
  return json_response({{"prompt", text.decode(tokens, false)}});
}

}  // namespace tandem
