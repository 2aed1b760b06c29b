// POST /v1/chat/completions
#include "engine/server/calls/call.h"
#include "engine/server/messages/request_parsing.h"
#include "engine/server/messages/response_building.h"

namespace tandem {
namespace {

using nlohmann::json;

class ChatShape final : public AnswerShape {
 public:
  ChatShape(const TextCodec& text, bool logprobs) : text_(text), wants_logprobs_(logprobs) {}

  const char* id_prefix() const override { return "chatcmpl-"; }
  const char* object(bool streamed) const override {
    return streamed ? "chat.completion.chunk" : "chat.completion";
  }
  json choice(const ChoicePart& whole) override {
    return choice_with("message", {{"role", "assistant"}, {"content", whole.text}}, whole);
  }
  json chunk_choice(const ChoicePart& part) override {
    json delta = json::object();
    if (part.first) delta["role"] = "assistant";
    if (part.first || !part.text.empty()) delta["content"] = part.text;
    return choice_with("delta", std::move(delta), part);
  }

 private:
  json choice_with(const char* name, json message, const ChoicePart& part) const {
    return {{"index", part.index},
            {name, std::move(message)},
            {"logprobs", wants_logprobs_ ? chat_logprobs(part.logprobs, text_) : json()},
            {"finish_reason", finish_reason_json(part.finish)},
            {"stop_reason", part.stop_reason.empty() ? json() : json(part.stop_reason)}};
  }

  const TextCodec& text_;
  bool wants_logprobs_;
};

}  // namespace

HttpResponse calls::chat_completions(CallContext& context, const HttpRequest& request,
                                     const json& body) {
  AnswerJob job;
  const ConversationRules rules{.bytes = request.body,
                                .trust_chat_template = context.options.trust_request_chat_template};
  if (auto error =
          parse_call(body, true, context.options.max_sequences_per_request, job.call, rules)) {
    return error_response(*error);
  }
  std::string adapter;
  if (auto error = context.find_adapter(job.call.model, adapter)) return error_response(*error);
  if (auto error = make_requests(job.call, *context.model().text, context.model().max_model_len,
                                 job.requests)) {
    return error_response(*error);
  }
  job.requests.front().adapter = adapter;
  job.model = job.call.model.empty() ? context.model().name : job.call.model;
  job.logged = context.logged(request, "/v1/chat/completions", adapter);
  job.shape = std::make_unique<ChatShape>(*context.model().text, job.call.logprobs);
  return answer(std::move(job), context.answer_limits(), *context.model().service, context.metrics);
}

}  // namespace tandem
