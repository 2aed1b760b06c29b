// A call whose text must be something: answered when that has been compiled, which nobody waits
// for.
#pragma once

#include <functional>

#include "base/http/http_message.h"
#include "engine/server/answer/answer.h"

namespace tandem {

// Requires that the job's constraint is one. `begin` submits the job; it is called at once if the
// constraint is known already, else when the response that is returned is taken, from a worker.
// What cannot be compiled is a 400 that names the field and the reason.
HttpResponse answer_when_compiled(AnswerJob job, GenerationService& service,
                                  std::function<HttpResponse(AnswerJob)> begin);

}  // namespace tandem
