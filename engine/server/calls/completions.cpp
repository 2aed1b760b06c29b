// POST /v1/completions
#include "engine/server/admission/queue_headers.h"
#include "engine/server/calls/call.h"
#include "engine/server/messages/request/request_parsing.h"
#include "engine/server/messages/response_building.h"

namespace tandem {
namespace {

using nlohmann::json;

class CompletionShape final : public AnswerShape {
 public:
  // With `echo`, a choice's text begins with its prompt.
  CompletionShape(const TextCodec& text, std::span<const GenerationRequest> requests, bool echo,
                  bool logprobs) {
    if (!logprobs) return;
    for (const GenerationRequest& request : requests) {
      const bool begins_text =
          echo || text.says_nothing(request.prompt, request.skip_special_tokens);
      logprobs_.insert(logprobs_.end(), static_cast<std::size_t>(request.n),
                       CompletionLogprobs(TokenTexts(text, begins_text)));
    }
  }

  const char* id_prefix() const override { return "cmpl-"; }
  const char* object(bool) const override { return "text_completion"; }
  std::vector<json> chunk_choices(const ChoicePart& part) override { return {choice(part)}; }
  json silent_choice(std::size_t index) const override {
    return {{"index", index},
            {"text", ""},
            {"logprobs", nullptr},
            {"finish_reason", nullptr},
            {"stop_reason", nullptr}};
  }
  json choice(const ChoicePart& part) override {
    return {{"index", part.index},
            {"text", part.text},
            {"logprobs", logprobs(part)},
            {"finish_reason", finish_reason_json(part.finish)},
            {"stop_reason", part.stop_reason.empty() ? json() : json(part.stop_reason)}};
  }

 private:
  json logprobs(const ChoicePart& part) {
    if (logprobs_.empty()) return nullptr;
    std::span<const TokenLogprob> prompt;
    if (part.prompt_logprobs != nullptr) prompt = *part.prompt_logprobs;
    return logprobs_[static_cast<std::size_t>(part.index)].format(
        prompt, part.logprobs, part.prompt_head ? &*part.prompt_head : nullptr, part.text);
  }

  std::vector<CompletionLogprobs> logprobs_;  // per choice; empty: not requested
};

}  // namespace

MaybeError make_completions_job(CallContext& context, const HttpRequest& request, const json& body,
                                AnswerJob& job) {
  job.call.request.sampling = context.model().sampling;
  if (auto error = parse_call(body, false, context.options.max_sequences_per_request, job.call,
                              {.bytes = request.body})) {
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
  const TextCodec& text = *job.text;
  if (auto error = make_requests(job.call, text, context.model().max_model_len, job.requests)) {
    return error;
  }
  for (std::size_t i = 0; i < job.requests.size(); ++i) {
    if (!job.call.echo) continue;
    const Prompt& prompt = job.call.prompts[i];
    if (job.call.truncate_prompt_tokens) {
      job.echoed.push_back(text.decode(job.requests[i].prompt, prompt.text.has_value()));
    } else {
      job.echoed.push_back(prompt.text ? *prompt.text : text.decode(prompt.tokens, false));
    }
  }
  job.model = job.call.model.empty() ? context.model().name : job.call.model;
  job.logged = context.logged(request, "/v1/completions", job.requests.front());
  job.may_come_back = context.model().fetch_adapter != nullptr;
  job.shape =
      std::make_unique<CompletionShape>(text, job.requests, job.call.echo, job.call.logprobs);
  return std::nullopt;
}

HttpResponse calls::completions(CallContext& context, const HttpRequest& request,
                                const json& body) {
  AnswerJob job;
  if (auto error = make_completions_job(context, request, body, job)) return error_response(*error);
  return answer(std::move(job), context.answer_limits(), *context.model().service, context.metrics);
}

}  // namespace tandem
