#include "engine/server/calls/call.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/check.h"

namespace tandem {

CallContext::CallContext(ServerOptions server_options)
    : options(std::move(server_options)), answer_budget(options.max_answers_bytes) {
  for (const auto& root : options.adapter_roots) {
    std::error_code failure;
    auto resolved = std::filesystem::canonical(root, failure);
    if (!failure) adapter_roots.push_back(std::move(resolved));
  }
}

const ServedModel& CallContext::model() const {
  const ServedModel* model = served.load(std::memory_order_acquire);
  TANDEM_CHECK(model != nullptr, "the call was let in while starting");
  return *model;
}

MaybeError CallContext::find_adapter(const std::string& asked, std::string& adapter) const {
  if (asked.empty() || asked == model().name) return std::nullopt;
  if (!model().service->has_adapter(asked)) {
    if (!model().fetch_adapter) return model_not_found(asked);
    const Status fetched = model().fetch_adapter(asked);
    if (fetched.code() == StatusCode::not_found) return model_not_found(asked);
    if (!fetched) return to_api_error(fetched);
  }
  adapter = asked;
  return std::nullopt;
}

std::shared_ptr<const TextCodec> CallContext::text_of(const std::string& adapter) const {
  return text_with_adapter(*model().text, *model().service, adapter);
}

MaybeError CallContext::find_adapters(const std::string& asked, GenerationRequest& request,
                                      std::string& first) const {
  const char* const field = request.adapters.empty() ? "model" : "adapters";
  std::vector<AdapterPart>& parts = request.adapters;
  if (parts.empty()) {
    MaybeError error = find_adapter(asked, request.adapter);
    first = request.adapter;
    if (!error || error->status != 404 || asked.find('+') == std::string::npos) return error;
    for (std::size_t at = 0; at <= asked.size();) {
      const std::size_t end = std::min(asked.find('+', at), asked.size());
      if (end == at || parts.size() == kMostAdapterParts) return error;
      parts.push_back({asked.substr(at, end - at)});
      at = end + 1;
    }
  } else if (!asked.empty() && asked != model().name) {
    return bad_field(field,
                     "'adapters' names the adapters: 'model' may only name the base model, '{}', "
                     "beside it",
                     model().name);
  }
  for (const AdapterPart& part : parts) {
    std::string found;
    MaybeError error = find_adapter(part.name, found);
    if (!error && found.empty()) {
      error = bad_field(field, "'{}' is the base model, not an adapter", part.name);
    }
    if (!error) continue;
    error->param = field;
    return error;
  }
  // Those that count not at all are left out.
  const auto counted =
      std::ranges::find_if(parts, [](const AdapterPart& part) { return part.scale != 0; });
  first = counted == parts.end() ? "" : counted->name;
  return std::nullopt;
}

std::shared_ptr<const ChatTemplates> CallContext::templates_of(const std::string& adapter) {
  if (!model().adapters_have_templates) return nullptr;
  return adapter_templates.find(*model().service, *model().text, adapter);
}

LoggedCall CallContext::logged(const HttpRequest& request, const char* path,
                               const GenerationRequest& adapters) const {
  return {request.id,
          path,
          model().name,
          adapters.adapters.empty() ? adapters.adapter : name_of(adapters.adapters),
          options.request_log,
          request.trace,
          request.came};
}

MaybeError not_serving(const CallContext& context) {
  if (context.draining.load(std::memory_order_acquire)) {
    return ApiError{503, "The server is shutting down", {}, "draining", kRetryAfterS};
  }
  if (context.served.load(std::memory_order_acquire) == nullptr) {
    return ApiError{
        503, "The server is starting: the model is being loaded", {}, "starting", kRetryAfterS};
  }
  return std::nullopt;
}

}  // namespace tandem
