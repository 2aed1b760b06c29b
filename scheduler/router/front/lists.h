// What several engines answer, as one answer.
#pragma once

#include <string>
#include <vector>

#include "base/http/http_message.h"
#include "scheduler/router/front/fan_out.h"

namespace tandem {

// /v1/models: each name once, as the first engine that has it describes it.
HttpResponse join_models(const EngineAnswers& answers);
// /v1/models/{id}: that of the first engine that knows it, else what an engine says instead.
HttpResponse join_model(const EngineAnswers& answers);
// /v1/adapters: every engine's, refused ones too, with "engine" (its address) in each.
HttpResponse join_adapters(const EngineAnswers& answers);
// /openapi.json: of the first engine's, the calls that are among `calls` ("GET /v1/models/", whose
// last part may be any), and what the router has beside them.
HttpResponse join_openapi(const EngineAnswers& answers, const std::vector<std::string>& calls);
// What was to be done on every engine (`done`: "loaded"): the first one's answer if all did it,
// else an error that says what failed where.
HttpResponse join_changes(const EngineAnswers& answers, const char* done);

}  // namespace tandem
