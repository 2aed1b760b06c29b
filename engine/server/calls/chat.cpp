// POST /v1/chat/completions
#include "base/json/json_release.h"
#include "engine/server/admission/queue_headers.h"
#include "engine/server/calls/call.h"
#include "engine/server/calls/chat_shape.h"
#include "engine/server/messages/request/request_parsing.h"
#include "engine/server/messages/response_building.h"
#include "engine/server/tool_calls/tool_constraint.h"

namespace tandem {
namespace {

using nlohmann::json;

// Sets up the request's tools for the served model: how calls are parsed, which special tokens stay
// in the text for that, and the grammar of enforced calls.
MaybeError plan_tools(const ServedModel& model, const TextCodec& codec, CompletionCall& call,
                      ChatTools& tools) {
  const ToolUse& use = call.tool_use;
  tools.parallel = use.parallel;
  tools.named = use.choice.kind == ToolChoice::Kind::named;
  const ChatTemplates* const own = call.adapter_templates.get();
  const bool detects = own != nullptr && model.detect_tool_format;
  tools.options.format =
      format_of(use, detects ? model.detect_tool_format(own->sources()) : model.tool_format);
  tools.options.begins_with_call = begins_with_call(use, tools.options.format);
  for (const char* const marker : markers_of(tools.options.format)) {
    const auto token = codec.special_token(marker);
    if (!token || !call.request.skip_special_tokens) continue;
    tools.options.hidden.emplace_back(marker);
    call.request.kept_special_tokens.push_back(*token);
  }
  if (!use.is_enforced()) {
    TextConstraint& text = call.request.constraint;
    text = text_or_calls(text, use, tools.options.format);
    return std::nullopt;
  }
  if (!model.service->enforces_constraints()) {
    ApiError error =
        bad_field("tool_choice", "'tool_choice' is not supported yet: only \"none\" or \"auto\"");
    error.code = "not_supported";
    return error;
  }
  if (call.request.constraint.kind != TextConstraint::Kind::none) {
    return bad_field("tool_choice",
                     "'tool_choice' asks for a call, and another field for a text of another form: "
                     "give one of them");
  }
  call.request.constraint = tool_constraint(use, tools.options.format);
  return std::nullopt;
}

}  // namespace

MaybeError make_chat_job(CallContext& context, const HttpRequest& request, const json& body,
                         AnswerJob& job) {
  ChatInput& chat = job.call.chat_input;
  const EmptiedFromLeaves messages_at_end(chat.messages);
  const EmptiedFromLeaves variables_at_end(chat.variables);
  const ServedModel& model = context.model();
  const ConversationRules rules{.bytes = request.body,
                                .trust_chat_template = context.options.trust_request_chat_template};
  job.call.request.sampling = model.sampling;
  if (auto error =
          parse_call(body, true, context.options.max_sequences_per_request, job.call, rules)) {
    return error;
  }
  if (auto error = take_queue_headers(request, context.options.objectives, job.call.request)) {
    return error;
  }
  std::string adapter;
  if (auto error = context.find_adapters(job.call.model, job.call.request, adapter)) {
    return error;
  }
  job.text = context.text_of(adapter);
  job.call.adapter_templates = context.templates_of(adapter);
  ChatTools tools;
  if (auto error = plan_tools(model, *job.text, job.call, tools)) return error;
  if (auto error = make_requests(job.call, *job.text, model.max_model_len, job.requests)) {
    return error;
  }
  // The messages are in the prompt now.
  empty_from_leaves(chat.messages);
  empty_from_leaves(chat.variables);
  job.model = job.call.model.empty() ? model.name : job.call.model;
  job.logged = context.logged(request, "/v1/chat/completions", job.requests.front());
  job.may_come_back = model.fetch_adapter != nullptr;
  job.shape = std::make_unique<ChatShape>(*job.text, job.requests.front(), job.call.logprobs,
                                          std::move(tools));
  return std::nullopt;
}

HttpResponse calls::chat_completions(CallContext& context, const HttpRequest& request,
                                     const json& body) {
  AnswerJob job;
  if (auto error = make_chat_job(context, request, body, job)) return error_response(*error);
  return answer(std::move(job), context.answer_limits(), *context.model().service, context.metrics);
}

}  // namespace tandem
