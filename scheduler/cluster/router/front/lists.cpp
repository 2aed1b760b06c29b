#include "scheduler/cluster/router/front/lists.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>

#include "base/json/json_text.h"
#include "scheduler/cluster/router/route_error.h"

namespace tandem {
namespace {

using nlohmann::json;

constexpr int kBadGateway = 502;

json parsed(const EngineAnswer& answer) {
  if (nests_deeper_than(answer.body, kMaxJsonDepth)) return nullptr;
  json value = json::parse(answer.body, nullptr, false);
  return value.is_discarded() ? json() : value;
}

// The list `key` of an answer; empty if there is none.
json list_of(const EngineAnswer& answer, const char* key) {
  if (!answer.ok()) return json::array();
  json value = parsed(answer);
  if (!value.is_object()) return json::array();
  const auto list = value.find(key);
  return list != value.end() && list->is_array() ? std::move(*list) : json::array();
}

// Every engine's list `key`, with "engine" in each.
json joined(const EngineAnswers& answers, const char* key) {
  json all = json::array();
  for (const EngineAnswer& answer : answers) {
    for (json& each : list_of(answer, key)) {
      if (!each.is_object()) continue;
      each["engine"] = answer.url;
      all.push_back(std::move(each));
    }
  }
  return all;
}

HttpResponse object_response(const json& body) {
  HttpResponse response;
  response.body = body.dump(-1, ' ', false, json::error_handler_t::replace);
  return response;
}

HttpResponse as_it_came(const EngineAnswer& answer) {
  HttpResponse response;
  response.status = answer.status;
  if (!answer.content_type.empty()) response.content_type = answer.content_type;
  response.body = answer.body;
  return response;
}

// The reason that an engine gives for its failure.
std::string reason_of(const EngineAnswer& answer) {
  if (answer.status == 0) return answer.body;
  const json value = parsed(answer);
  if (value.is_object() && value.contains("error") && value["error"].is_object()) {
    const auto message = value["error"].find("message");
    if (message != value["error"].end() && message->is_string()) {
      return message->get<std::string>();
    }
  }
  return fmt::format("status {}", answer.status);
}

}  // namespace

HttpResponse join_models(const EngineAnswers& answers) {
  if (std::none_of(answers.begin(), answers.end(), [](const auto& one) { return one.ok(); })) {
    return envelope_response(nobody_accepts());
  }
  json all = json::array();
  std::set<std::string> known;
  for (const EngineAnswer& answer : answers) {
    for (json& model : list_of(answer, "data")) {
      if (!model.is_object() || !model.contains("id") || !model["id"].is_string()) continue;
      if (known.insert(model["id"].get<std::string>()).second) all.push_back(std::move(model));
    }
  }
  return object_response({{"object", "list"}, {"data", std::move(all)}});
}

HttpResponse join_model(const EngineAnswers& answers) {
  const EngineAnswer* best = nullptr;
  for (const EngineAnswer& answer : answers) {
    if (answer.status == 0) continue;
    if (best == nullptr || (answer.ok() && !best->ok())) best = &answer;
  }
  return best == nullptr ? envelope_response(nobody_accepts()) : as_it_came(*best);
}

HttpResponse join_adapters(const EngineAnswers& answers) {
  if (std::none_of(answers.begin(), answers.end(), [](const auto& one) { return one.ok(); })) {
    return envelope_response(nobody_accepts());
  }
  return object_response({{"object", "list"},
                          {"data", joined(answers, "data")},
                          {"sets", joined(answers, "sets")},
                          {"refused", joined(answers, "refused")}});
}

HttpResponse join_openapi(const EngineAnswers& answers, const std::vector<std::string>& calls) {
  const auto is_called = [&](std::string method, std::string_view path) {
    for (char& c : method) c = static_cast<char>(c - 32);
    const std::string call = fmt::format("{} {}", method, path.substr(0, path.find('{')));
    return std::find(calls.begin(), calls.end(), call) != calls.end();
  };
  for (const EngineAnswer& answer : answers) {
    json description = answer.ok() ? parsed(answer) : json();
    if (!description.is_object() || !description["paths"].is_object()) continue;
    json paths = json::object();
    for (const auto& [path, methods] : description["paths"].items()) {
      if (!methods.is_object()) continue;
      for (const auto& [method, operation] : methods.items()) {
        if (is_called(method, path)) paths[path][method] = operation;
      }
    }
    const auto say = [&](const char* path, const char* summary) {
      json& get = paths[path]["get"];
      if (!get.is_object()) get = {{"responses", {{"200", {{"description", "Success"}}}}}};
      get["summary"] = summary;
    };
    say("/v1/scale", "How many engines the load needs");
    say("/v1/stats", "The engines as the router sees them");
    say("/ready", "An engine accepts requests");
    description["paths"] = std::move(paths);
    HttpResponse response;
    response.body = description.dump(-1, ' ', false, json::error_handler_t::replace);
    return response;
  }
  return envelope_response(nobody_accepts());
}

HttpResponse join_changes(const EngineAnswers& answers, const char* done) {
  if (answers.empty()) return envelope_response(nobody_accepts());
  std::string failures;
  std::size_t succeeded = 0;
  int status = 0;  // common status of all failures, else 502
  for (const EngineAnswer& answer : answers) {
    if (answer.ok()) {
      ++succeeded;
      continue;
    }
    const int one = answer.status == 0 ? kBadGateway : answer.status;
    status = status == 0 || status == one ? one : kBadGateway;
    failures +=
        fmt::format("{}{}: {}", failures.empty() ? "" : "; ", answer.url, reason_of(answer));
  }
  if (failures.empty()) return as_it_came(answers.front());
  return envelope_response(
      {status, fmt::format("{} on {} of {} engines. {}", done, succeeded, answers.size(), failures),
       succeeded == 0 ? "engines_refused" : "partly_done", 0});
}

}  // namespace tandem
