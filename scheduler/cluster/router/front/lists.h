// Joins the answers of several engines into one.
#pragma once

#include <string>
#include <vector>

#include "base/http/http_message.h"
#include "scheduler/cluster/router/front/fan_out.h"

namespace tandem {

// /v1/models: each name once, as the first engine that has it describes it.
HttpResponse join_models(const EngineAnswers& answers);
// /v1/models/{id}: the answer of the first engine that has the model, else an engine's error.
HttpResponse join_model(const EngineAnswers& answers);
// /v1/adapters: the adapters of every engine, rejected ones too, each with "engine" (the address).
HttpResponse join_adapters(const EngineAnswers& answers);
// /openapi.json: from the first engine's, the calls that are among `calls` ("GET /v1/models/",
// whose last part may be any), and the calls that only the router has.
HttpResponse join_openapi(const EngineAnswers& answers, const std::vector<std::string>& calls);
// The result of a change on every engine (`done`: "loaded"): the first engine's answer if all
// succeeded, else an error that lists the failures.
HttpResponse join_changes(const EngineAnswers& answers, const char* done);

}  // namespace tandem
