// GET /openapi.json, generated from the tables that the server itself uses.
#include <string>
#include <utility>

#include "engine/server/admission/queue_headers.h"
#include "engine/server/calls/call.h"
#include "engine/server/messages/request/request_fields.h"
#include "engine/server/messages/request/unsupported_fields.h"
#include "engine/server/messages/response_building.h"
#include "engine/service/engine_figures.h"

namespace tandem {
namespace {

using nlohmann::json;

json fields_schema(unsigned where, const char* required) {
  json properties = json::object();
  for (const RequestField& field : request_fields()) {
    if ((field.where & where) != 0) properties[field.name] = schema_of(field);
  }
  for (const UnsupportedField& field : unsupported_fields()) {
    if ((field.where & where) != 0) properties[field.name] = schema_of(field);
  }
  return {{"type", "object"},
          {"required", json::array({required})},
          {"properties", std::move(properties)},
          {"additionalProperties", true}};
}

json property(const char* type, const char* description) {
  return {{"type", type}, {"description", description}};
}

json body_schema(std::string_view path) {
  if (path == "/v1/completions") return fields_schema(kCompletions, "prompt");
  if (path == "/v1/chat/completions") return fields_schema(kChat, "messages");
  if (path == "/v1/embeddings") return fields_schema(kEmbeddings, "input");
  if (path == "/v1/classify") return fields_schema(kClassify, "input");
  if (path == "/v1/score") return fields_schema(kScore, "text_2");
  if (path.ends_with("/rerank")) return fields_schema(kRerank, "documents");
  if (path == "/v1/relay") {
    json choice{{"type", "object"},
                {"properties",
                 {{"tokens", {{"type", "array"}, {"items", {{"type", "integer"}}}}},
                  {"finish", {{"type", {"string", "null"}}}},
                  {"events", {{"type", "integer"}, {"minimum", 0}}}}}};
    return {{"type", "object"},
            {"required", {"path", "id", "created", "seed", "request"}},
            {"properties",
             {{"path", property("string", "/v1/completions or /v1/chat/completions")},
              {"id", property("string", "The answer's id")},
              {"created", property("integer", "The answer's time, seconds since the epoch")},
              {"seed", property("integer", "Draws begin from it where the request gives none")},
              {"sent", {{"type", "array"}, {"items", std::move(choice)}}},
              {"request", property("object", "The client's body")}}}};
  }
  if (path == "/v1/drain") {
    return {
        {"type", "object"},
        {"properties",
         {{"drain", property("boolean", "false: takes new requests again")},
          {"hand_over", property("boolean", "Relayed requests end, for others to go on with")}}}};
  }
  if (path == "/v1/log_level") {
    return {{"type", "object"},
            {"required", json::array({"log_level"})},
            {"properties", {{"log_level", property("string", "As in info,handoff=debug")}}}};
  }
  const json name = property("string", "1 to 128 letters, digits, '.', '_', ':', '/' and '-'");
  if (path == "/v1/load_lora_adapter") {
    return {{"type", "object"},
            {"required", {"lora_name", "lora_path"}},
            {"properties",
             {{"lora_name", name},
              {"lora_path", property("string", "A folder under one of the adapter roots")},
              {"load_inplace", property("boolean", "Replace an adapter of this name")},
              {"pinned", property("boolean", "Never evict it")}}}};
  }
  if (path == "/v1/unload_lora_adapter") {
    return {{"type", "object"},
            {"required", json::array({"lora_name"})},
            {"properties", {{"lora_name", name}}}};
  }
  if (path == "/tokenize") {
    json properties{
        {"model", property("string", "The base model or an adapter, by name")},
        {"prompt", property("string", "A text")},
        {"add_special_tokens", property("boolean", "For a prompt; true when absent")},
        {"return_token_strs", property("boolean", "Tell the vocabulary's strings too")}};
    for (const RequestField& field : request_fields()) {
      if ((field.where & kTokenize) != 0) properties[field.name] = schema_of(field);
    }
    return {{"type", "object"}, {"properties", std::move(properties)}};
  }
  return {{"type", "object"},
          {"required", json::array({"tokens"})},
          {"properties",
           {{"model", property("string", "The base model or an adapter, by name")},
            {"tokens", {{"type", "array"}, {"items", {{"type", "integer"}, {"minimum", 0}}}}}}}};
}

json error_schema() {
  const json text_or_null{{"type", {"string", "null"}}};
  return {{"type", "object"},
          {"required", json::array({"error"})},
          {"properties",
           {{"error",
             {{"type", "object"},
              {"required", {"message", "type", "param", "code"}},
              {"properties",
               {{"message", {{"type", "string"}}},
                {"type", {{"type", "string"}}},
                {"param", text_or_null},
                {"code", text_or_null}}}}}}}};
}

json object_of(json properties) {
  return {{"type", "object"}, {"properties", std::move(properties)}};
}

// The schema of GET /v1/adapters.
json adapters_schema() {
  const json count{{"type", "integer"}, {"minimum", 0}};
  const json factor = object_of(
      {{"factor", property("number", "Over all sizes; 2: twice as long as the figures say")},
       {"lessons", property("integer", "Measurements that it comes from; of none it is 1")},
       {"by_size",
        {{"type", "array"},
         {"items", {{"type", "number"}}},
         {"description",
          "Each for twice the size: rows of a step, or 16 us of work by the figures"}}}});
  const json learned = object_of(
      {{"costs",
        {{"type", "object"},
         {"additionalProperties", factor},
         {"description", "By what it is of: link, layers, kinds of handover"}}},
       {"lessons", property("integer", "Measurements since the start")},
       {"situations", property("integer", "Of which it is known what plans came to")},
       {"plans_followed", property("integer", "Steps that a plan shortened, as it promised")},
       {"plans_given_up", property("integer", "Such plans were seen to lose: all was waited for")},
       {"worker_wake_seconds", property("number", "Until the last worker that slept is awake")}});
  json handoff{{"learned", learned}};
  each_figure_of("handoff", {}, [&](std::string_view name, const Figure& figure, auto) {
    handoff[name] = figure.described != nullptr ? property("number", figure.described) : count;
  });
  const json text{{"type", "string"}};
  const json adapter = object_of({{"name", text},
                                  {"path", text},
                                  {"digest", text},
                                  {"rank", count},
                                  {"modules", {{"type", "array"}, {"items", text}}},
                                  {"labels", property("integer", "Of its score head; 0: none")},
                                  {"vocab_size", property("integer", "0: that of the base")},
                                  {"bytes", count},
                                  {"tier", {{"enum", {"disk", "host", "loading", "device"}}}},
                                  {"pinned", {{"type", "boolean"}}},
                                  {"loaded", property("integer", "Seconds since the epoch")},
                                  {"running", count},
                                  {"waiting", count},
                                  {"hits", count},
                                  {"cold_starts", count}});
  const json refused = object_of({{"name", text}, {"path", text}, {"reason", text}});
  return object_of({{"object", {{"const", "list"}}},
                    {"data", {{"type", "array"}, {"items", adapter}}},
                    {"sets", {{"type", "array"}, {"items", adapter}}},
                    {"refused", {{"type", "array"}, {"items", refused}}},
                    {"handoff", object_of(std::move(handoff))}});
}

// The content of a successful response.
json content_of(std::string_view path) {
  if (path == "/metrics" || path.ends_with("_lora_adapter")) {
    return {{"text/plain", {{"schema", {{"type", "string"}}}}}};
  }
  if (path == "/" || path == "/dashboard/{file}") {
    return {{"text/html", {{"schema", {{"type", "string"}}}}}};
  }
  if (path == "/v1/dashboard/events") {
    return {{"text/event-stream", {{"schema", {{"type", "string"}}}}}};
  }
  if (path.ends_with("{file}")) {
    return {{"application/octet-stream", {{"schema", {{"type", "string"}, {"format", "binary"}}}}}};
  }
  if (path == "/v1/adapters") return {{"application/json", {{"schema", adapters_schema()}}}};
  json content{{"application/json", {{"schema", {{"type", "object"}}}}}};
  if (path.ends_with("completions") || path == "/v1/relay" || path == "/v1/stats") {
    content["text/event-stream"] = {{"schema", {{"type", "string"}}}};
  }
  return content;
}

json operation(const Route& route) {
  json described{
      {"summary", route.summary},
      {"responses",
       {{"200", {{"description", "Success"}, {"content", content_of(route.path)}}},
        {"default",
         {{"description", "What went wrong"},
          {"content",
           {{"application/json", {{"schema", {{"$ref", "#/components/schemas/Error"}}}}}}}}}}}};
  const std::string_view path = route.path;
  for (std::size_t open = path.find('{'); open != std::string_view::npos;
       open = path.find('{', open + 1)) {
    described["parameters"].push_back(
        {{"name", std::string(path.substr(open + 1, path.find('}', open) - open - 1))},
         {"in", "path"},
         {"required", true},
         {"schema", {{"type", "string"}}}});
  }
  constexpr std::string_view kQueued[] = {
      "/v1/completions", "/v1/chat/completions", "/v1/embeddings", "/v1/classify", "/v1/score",
      "/v1/rerank",      "/v2/rerank",           "/rerank",        "/v1/relay"};
  if (std::ranges::find(kQueued, path) != std::end(kQueued)) {
    for (const QueueHeader& header : queue_headers()) {
      described["parameters"].push_back({{"name", header.name},
                                         {"in", "header"},
                                         {"required", false},
                                         {"description", header.summary},
                                         {"schema", {{"type", header.type}}}});
    }
  }
  if (std::string_view(route.method) == "POST") {
    described["requestBody"] = {
        {"required", true}, {"content", {{"application/json", {{"schema", body_schema(path)}}}}}};
  }
  if (path == "/health" || path == "/" || path == "/dashboard/{file}") {
    described["security"] = json::array();
  }
  return described;
}

}  // namespace

HttpResponse calls::openapi(CallContext& context, const HttpRequest&, const json&) {
  json paths = json::object();
  for (const Route& route : routes()) {
    std::string method = route.method;
    for (char& c : method) c = static_cast<char>(c + 32);
    paths[route.path][method] = operation(route);
  }
  json description{
      {"openapi", "3.1.0"},
      {"info",
       {{"title", "Tandem"},
        {"version", "0.1.0"},
        {"description", "One base model and its LoRA adapters, over OpenAI's interface"}}},
      {"paths", std::move(paths)},
      {"components",
       {{"schemas", {{"Error", error_schema()}}},
        {"securitySchemes", {{"key", {{"type", "http"}, {"scheme", "bearer"}}}}}}}};
  if (!context.options.api_key.empty()) {
    description["security"] = json::array({{{"key", json::array()}}});
  }
  return json_response(description);
}

}  // namespace tandem
