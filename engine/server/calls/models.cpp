// GET /v1/models, GET /v1/models/{id}
#include <set>
#include <string>

#include "base/json/json_equals.h"
#include "engine/server/calls/call.h"
#include "engine/server/messages/response_building.h"

namespace tandem {
namespace {

using nlohmann::json;

constexpr std::string_view kModelsPath = "/v1/models/";

json model_json(const std::string& id, std::int64_t created, const std::string& root, json parent,
                std::int32_t max_model_len) {
  return {{"id", id},
          {"object", "model"},
          {"created", created},
          {"owned_by", "tandem"},
          {"root", root},
          {"parent", std::move(parent)},
          {"max_model_len", max_model_len}};
}

json on_demand_json(const OnDemandAdapter& adapter, const ServedModel& model) {
  return model_json(adapter.name, adapter.created_unix, adapter.root, model.name,
                    model.max_model_len);
}

json all_models(const ServedModel& model, std::int64_t created) {
  json list = json::array();
  std::set<std::string> known = {model.name};
  list.push_back(model_json(model.name, created, model.root, nullptr, model.max_model_len));
  for (const AdapterInfo& adapter : model.service->adapters()) {
    known.insert(adapter.name);
    list.push_back(model_json(adapter.name, adapter.loaded_unix, adapter.path, model.name,
                              model.max_model_len));
  }
  if (!model.on_demand_adapters) return list;
  for (const OnDemandAdapter& adapter : model.on_demand_adapters()) {
    if (known.insert(adapter.name).second) list.push_back(on_demand_json(adapter, model));
  }
  return list;
}

}  // namespace

HttpResponse calls::list_models(CallContext& context, const HttpRequest&, const json&) {
  return json_response(
      {{"object", "list"}, {"data", all_models(context.model(), context.attached_unix)}});
}

HttpResponse calls::show_model(CallContext& context, const HttpRequest& request, const json&) {
  const std::string id = request.path.substr(kModelsPath.size());
  for (const json& entry : all_models(context.model(), context.attached_unix)) {
    if (is_text(entry["id"], id)) return json_response(entry);
  }
  const ServedModel& model = context.model();
  if (model.find_on_demand) {
    if (const auto adapter = model.find_on_demand(id)) {
      return json_response(on_demand_json(*adapter, model));
    }
  }
  return error_response(model_not_found(id));
}

}  // namespace tandem
