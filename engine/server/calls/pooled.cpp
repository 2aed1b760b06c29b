#include "engine/server/calls/pooled.h"

#include <charconv>
#include <iterator>
#include <utility>

#include "engine/server/admission/queue_headers.h"
#include "engine/server/messages/request/request_parsing.h"

namespace tandem {

HttpResponse answer_pooled(CallContext& context, const HttpRequest& request, const char* path,
                           CompletionCall call, std::unique_ptr<PooledShape> shape) {
  AnswerJob job;
  job.call = std::move(call);
  job.shape = std::move(shape);
  const ServedModel& model = context.model();
  if (auto error = take_queue_headers(request, context.options.objectives, job.call.request)) {
    return error_response(*error);
  }
  std::string adapter;
  if (auto error = context.find_adapters(job.call.model, job.call.request, adapter)) {
    return error_response(*error);
  }
  job.text = context.text_of(adapter);
  if (auto error = make_requests(job.call, *job.text, model.max_model_len, job.requests)) {
    return error_response(*error);
  }
  job.model = job.call.model.empty() ? model.name : job.call.model;
  job.logged = context.logged(request, path, job.requests.front());
  job.may_come_back = model.fetch_adapter != nullptr;
  return answer(std::move(job), context.answer_limits(), *model.service, context.metrics);
}

double with_few_digits(float value) {
  char text[32];
  const auto end = std::to_chars(std::begin(text), std::end(text), value).ptr;
  double number = 0;
  std::from_chars(text, end, number);
  return number;
}

}  // namespace tandem
