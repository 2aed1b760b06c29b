// POST /v1/load_lora_adapter, POST /v1/unload_lora_adapter, GET /v1/adapters
#include <algorithm>
#include <system_error>

#include "base/file/folder.h"
#include "base/log/log.h"
#include "engine/server/calls/call.h"
#include "engine/server/messages/json_body.h"
#include "engine/server/messages/request/request_parsing.h"
#include "engine/server/messages/response_building.h"
#include "engine/service/engine_figures.h"

namespace tandem {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr std::size_t kMaxNameBytes = 128;

bool is_name(const std::string& name) {
  return !name.empty() && name.size() <= kMaxNameBytes &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  std::string_view("._:/-").find(c) != std::string_view::npos;
         });
}

void warn_unknown(const json& body, const char* call,
                  std::initializer_list<std::string_view> known) {
  for (const auto& [name, value] : body.items()) {
    if (std::find(known.begin(), known.end(), name) == known.end()) warn_unknown_field(call, name);
  }
}

MaybeError check_adapter_call(const CallContext& context, const json& body, std::string& name) {
  if (context.options.adapter_roots.empty()) {
    return ApiError{403,
                    "Loading and unloading adapters is off; start the server with --adapter-root "
                    "DIR to allow it from under DIR",
                    {},
                    "adapter_loading_off",
                    0};
  }
  const auto found = body.find("lora_name");
  if (found == body.end() || !found->is_string() || !is_name(found->get<std::string>())) {
    return bad_field("lora_name",
                     "'lora_name' must be a string of 1 to {} letters, digits, '.', '_', ':', '/' "
                     "and '-'",
                     kMaxNameBytes);
  }
  name = found->get<std::string>();
  if (name == context.model().name)
    return bad_field("lora_name", "'{}' is the base model's name", name);
  return std::nullopt;
}

MaybeError resolve_adapter_path(const CallContext& context, const std::string& path,
                                std::string& resolved) {
  // The same answer for all paths outside the roots, so that it does not reveal which ones exist.
  const ApiError outside{403, "'lora_path' must lie under one of the configured adapter roots",
                         "lora_path", "path_not_allowed", 0};
  const fs::path asked(path);
  for (const fs::path& root : context.adapter_roots) {
    std::error_code failure;
    // A relative path is taken under each root. Existing parts are resolved, links included.
    const fs::path real = fs::weakly_canonical(asked.is_absolute() ? asked : root / asked, failure);
    if (failure || !lies_under(real, root)) continue;
    if (asked.is_absolute() || fs::exists(real, failure)) {
      // The resolved path is opened later without following links (Folder::open), so that a part of
      // it that is replaced after this check is not read.
      resolved = real.string();
      return std::nullopt;
    }
    resolved = real.string();
  }
  if (!resolved.empty()) return std::nullopt;  // allowed, but does not exist: the load reports it
  return outside;
}

json learned_json(const LearnedCosts& learned) {
  json costs = json::object();
  for (const LearnedCosts::Factor& factor : learned.factors) {
    json& cost = costs[std::string(factor.of)];
    cost = {{"factor", factor.factor}, {"lessons", factor.lessons}};
    if (!factor.by_size.empty()) cost["by_size"] = factor.by_size;
  }
  return {{"costs", std::move(costs)},
          {"lessons", learned.lessons},
          {"situations", learned.situations},
          {"plans_followed", learned.plans_followed},
          {"plans_given_up", learned.plans_given_up},
          {"worker_wake_seconds", learned.worker_wake_s}};
}

json list_of(const std::vector<AdapterInfo>& adapters) {
  json list = json::array();
  for (const AdapterInfo& adapter : adapters) {
    list.push_back({{"name", adapter.name},
                    {"path", adapter.path},
                    {"digest", adapter.digest},
                    {"rank", adapter.rank},
                    {"modules", adapter.modules},
                    {"labels", adapter.labels},
                    {"vocab_size", adapter.vocab_size},
                    {"bytes", adapter.bytes},
                    {"tier", adapter.tier},
                    {"pinned", adapter.pinned},
                    {"loaded", adapter.loaded_unix},
                    {"running", adapter.running},
                    {"waiting", adapter.waiting},
                    {"hits", adapter.hits},
                    {"cold_starts", adapter.cold_starts}});
  }
  return list;
}

}  // namespace

HttpResponse calls::load_adapter(CallContext& context, const HttpRequest&, const json& body) {
  std::string name;
  bool in_place = false;
  bool pinned = false;
  if (auto error = check_adapter_call(context, body, name)) return error_response(*error);
  if (auto error = take_bool(body, "load_inplace", in_place)) return error_response(*error);
  if (auto error = take_bool(body, "pinned", pinned)) return error_response(*error);
  const auto found = body.find("lora_path");
  if (found == body.end() || !found->is_string() || found->get_ref<const std::string&>().empty() ||
      found->get_ref<const std::string&>().find('\0') != std::string::npos) {
    return error_response(bad_field("lora_path", "'lora_path' must be the path of a folder"));
  }
  warn_unknown(body, "load_lora_adapter", {"lora_name", "lora_path", "load_inplace", "pinned"});
  std::string path;
  if (auto error = resolve_adapter_path(context, found->get<std::string>(), path)) {
    return error_response(*error);
  }
  const std::lock_guard lock(context.loading);
  if (Status status = context.model().service->load_adapter(name, path, in_place, pinned);
      !status) {
    return error_response(to_api_error(status));
  }
  log::info("adapter '{}' loaded from {}", name, path);
  return text_response(fmt::format("Success: LoRA adapter '{}' added successfully.", name));
}

HttpResponse calls::unload_adapter(CallContext& context, const HttpRequest&, const json& body) {
  std::string name;
  if (auto error = check_adapter_call(context, body, name)) return error_response(*error);
  warn_unknown(body, "unload_lora_adapter", {"lora_name", "lora_int_id"});
  const std::lock_guard lock(context.loading);
  if (!context.model().service->has_adapter(name)) {
    ApiError unknown = model_not_found(name);
    unknown.param = "lora_name";
    return error_response(unknown);
  }
  if (Status status = context.model().service->unload_adapter(name); !status) {
    return error_response(to_api_error(status));
  }
  log::info("adapter '{}' unloaded", name);
  return text_response(fmt::format("Success: LoRA adapter '{}' removed successfully.", name));
}

HttpResponse calls::list_adapters(CallContext& context, const HttpRequest&, const json&) {
  json handoff{{"learned", learned_json(context.model().service->learned_costs())}};
  each_figure_of("handoff", context.model().service->stats(),
                 [&](std::string_view name, const Figure&, auto value) { handoff[name] = value; });
  json refused = json::array();
  for (const RefusedAdapter& adapter : context.model().refused_adapters) {
    if (context.model().service->has_adapter(adapter.name)) continue;  // has been loaded since
    refused.push_back({{"name", adapter.name}, {"path", adapter.path}, {"reason", adapter.why}});
  }
  return json_response({{"object", "list"},
                        {"data", list_of(context.model().service->adapters())},
                        {"sets", list_of(context.model().service->adapter_sets())},
                        {"refused", std::move(refused)},
                        {"handoff", std::move(handoff)}});
}

}  // namespace tandem
