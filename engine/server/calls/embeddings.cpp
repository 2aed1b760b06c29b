// POST /v1/embeddings
#include <charconv>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/text/base64.h"
#include "engine/server/admission/queue_headers.h"
#include "engine/server/calls/call.h"
#include "engine/server/messages/request/request_parsing.h"

namespace tandem {
namespace {

using nlohmann::json;

// The number with the fewest digits that reads as the same float.
double with_few_digits(float value) {
  char text[32];
  const auto end = std::to_chars(std::begin(text), std::end(text), value).ptr;
  double number = 0;
  std::from_chars(text, end, number);
  return number;
}

class EmbeddingShape final : public AnswerShape {
 public:
  explicit EmbeddingShape(const EmbeddingForm& form) : form_(form) {}

  const char* id_prefix() const override { return "embd-"; }
  const char* object(bool) const override { return "list"; }
  const char* list() const override { return "data"; }
  json choice(const ChoicePart& part) override {
    return {{"object", "embedding"},
            {"index", part.index},
            {"embedding", formed(numbers(part.pooled))}};
  }
  // Embeddings are not streamed.
  std::vector<json> chunk_choices(const ChoicePart&) override { return {}; }
  json silent_choice(std::size_t) const override { return {}; }

 private:
  std::vector<float> numbers(std::vector<float> state) const {
    if (form_.dimensions > 0) state.resize(static_cast<std::size_t>(form_.dimensions));
    if (!form_.normalize) return state;
    double squares = 0;
    for (const float x : state) squares += static_cast<double>(x) * x;
    if (squares == 0) return state;
    for (float& x : state) x = static_cast<float>(x / std::sqrt(squares));
    return state;
  }

  json formed(const std::vector<float>& numbers) const {
    if (form_.base64) {  // the machine is little-endian, as the format is
      return to_base64({reinterpret_cast<const char*>(numbers.data()), numbers.size() * 4});
    }
    json list = json::array();
    for (const float x : numbers) list.push_back(with_few_digits(x));
    return list;
  }

  EmbeddingForm form_;
};

}  // namespace

HttpResponse calls::embeddings(CallContext& context, const HttpRequest& request, const json& body) {
  AnswerJob job;
  const ServedModel& model = context.model();
  if (auto error = parse_embeddings(body, context.options.max_sequences_per_request, job.call)) {
    return error_response(*error);
  }
  if (job.call.embedding.dimensions > model.hidden_size) {
    return error_response(bad_field("dimensions",
                                    "'dimensions' is {}, and this model's states have {} numbers",
                                    job.call.embedding.dimensions, model.hidden_size));
  }
  job.call.pooled_numbers = static_cast<std::uint64_t>(model.hidden_size);
  if (auto error = take_queue_headers(request, context.options.objectives, job.call.request)) {
    return error_response(*error);
  }
  std::string adapter;
  if (auto error = context.find_adapter(job.call.model, adapter)) return error_response(*error);
  if (auto error = make_requests(job.call, *model.text, model.max_model_len, job.requests)) {
    return error_response(*error);
  }
  for (GenerationRequest& each : job.requests) each.adapter = adapter;
  job.model = job.call.model.empty() ? model.name : job.call.model;
  job.logged = context.logged(request, "/v1/embeddings", adapter);
  job.may_come_back = model.fetch_adapter != nullptr;
  job.shape = std::make_unique<EmbeddingShape>(job.call.embedding);
  return answer(std::move(job), context.answer_limits(), *model.service, context.metrics);
}

}  // namespace tandem
