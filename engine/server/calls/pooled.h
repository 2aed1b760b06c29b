// The common part of the calls that are answered with numbers in place of text: embeddings,
// classes, scores and rankings.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "engine/server/calls/call.h"

namespace tandem {

// A list of what was made of each prompt. It is never streamed.
class PooledShape : public AnswerShape {
 public:
  const char* object(bool) const override { return "list"; }
  const char* list() const override { return "data"; }
  std::vector<nlohmann::json> chunk_choices(const ChoicePart&) final { return {}; }
  nlohmann::json silent_choice(std::size_t) const final { return {}; }
};

// Runs the checked call. `path`: of the call, for the log.
HttpResponse answer_pooled(CallContext& context, const HttpRequest& request, const char* path,
                           CompletionCall call, std::unique_ptr<PooledShape> shape);

// The number with the fewest digits that reads as the same float.
double with_few_digits(float value);

}  // namespace tandem
