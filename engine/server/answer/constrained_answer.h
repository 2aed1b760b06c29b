// Answers a call with a constraint, without blocking a thread while the constraint is compiled.
#pragma once

#include <functional>

#include "base/http/http_message.h"
#include "engine/server/answer/answer.h"

namespace tandem {

// Requires a job with a constraint. `begin` submits the job: at once if the compiled constraint is
// known already, else from a worker thread when the returned response is taken. A failed
// compilation is a 400 with the field and the reason.
HttpResponse answer_when_compiled(AnswerJob job, GenerationService& service,
                                  std::function<HttpResponse(AnswerJob)> begin);

}  // namespace tandem
