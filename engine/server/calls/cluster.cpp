// POST /v1/relay, GET /v1/stats, POST /v1/drain: the calls that routers make to an engine
#include <fmt/format.h>

#include "base/http/sse.h"
#include "base/limits/bytes_text.h"
#include "base/log/log.h"
#include "engine/server/calls/call.h"
#include "engine/server/cluster/relayed_call.h"
#include "engine/server/messages/json_body.h"
#include "engine/server/messages/response_building.h"

namespace tandem {

using nlohmann::json;

namespace {

// Parses a query like "a=1&watch=1".
bool wants_watch(std::string_view query) {
  while (!query.empty()) {
    const std::size_t end = query.find('&');
    if (query.substr(0, end) == "watch=1") return true;
    if (end == std::string_view::npos) break;
    query.remove_prefix(end + 1);
  }
  return false;
}

}  // namespace

HttpResponse calls::relay(CallContext& context, const HttpRequest& request, const json& body) {
  RelayedCall call;
  HttpRequest inner;  // the client's own call, as it would arrive without a router
  inner.id = request.id;
  inner.trace = request.trace;
  inner.came = request.came;
  inner.method = request.method;
  inner.headers = request.headers;  // its deadlines and tenant are passed on by headers
  if (auto error = parse_relayed(request.body, body, call, inner.body)) {
    return error_response(*error);
  }
  if (inner.body.size() > context.options.max_body_bytes) {
    return error_response(
        {413,
         fmt::format("The body is longer than {}", size_text(context.options.max_body_bytes)),
         {},
         "body_too_long",
         0});
  }
  const json& wrapped = body.at("request");
  AnswerJob job;
  if (auto error = call.chat ? make_chat_job(context, inner, wrapped, job)
                             : make_completions_job(context, inner, wrapped, job)) {
    return error_response(*error);
  }
  if (auto error = take_up(call, job.call.stream, job.requests)) return error_response(*error);
  const ServedModel& model = context.model();
  const GenerationRequest& first = job.requests.front();
  RelayedWeights::AdapterDigest digest;  // stays unset for the base
  if (model.adapter_digest && !(first.adapter.empty() && first.adapters.empty())) {
    digest = [&model, adapter = first.adapter, parts = first.adapters] {
      return model.adapter_digest(adapter, parts);
    };
  }
  call.weights.serve(model.base_identity, std::move(digest));
  job.relayed = std::move(call);
  return answer(std::move(job), context.answer_limits(), *context.model().service, context.metrics);
}

// Stays available while the server drains, without delaying its end: watchers see that it drains.
HttpResponse calls::stats(CallContext& context, const HttpRequest& request, const json&) {
  // acquire: pairs with attach, which made the feed before
  if (context.served.load(std::memory_order_acquire) == nullptr) {
    return error_response(*not_serving(context));
  }
  if (!wants_watch(request.query) || request.method == "HEAD") {
    HttpResponse response;
    response.body = context.stats->look();
    return response;
  }
  HttpResponse response = sse_response();
  response.source = context.stats->watch();
  return response;
}

HttpResponse calls::drain(CallContext& context, const HttpRequest&, const json& body) {
  bool drains = true;
  bool hand_over = false;
  if (auto error = take_bool(body, "drain", drains)) return error_response(*error);
  if (auto error = take_bool(body, "hand_over", hand_over)) return error_response(*error);
  GenerationService& service = *context.model().service;
  if (drains) {
    service.drain();
    if (hand_over) context.hand_over.ask();
  } else {
    context.hand_over.take_back();
    service.resume();
  }
  log::info("{}", !drains     ? "takes new requests again"
                  : hand_over ? "drains: relayed requests are handed over, others finish"
                              : "drains: running requests finish");
  return json_response({{"draining", drains}, {"hand_over", drains && hand_over}});
}

}  // namespace tandem
