// POST /v1/embeddings
#include <cmath>
#include <utility>

#include "base/text/base64.h"
#include "engine/server/calls/pooled.h"
#include "engine/server/messages/request/request_parsing.h"

namespace tandem {
namespace {

using nlohmann::json;

class EmbeddingShape final : public PooledShape {
 public:
  explicit EmbeddingShape(const EmbeddingForm& form) : form_(form) {}

  const char* id_prefix() const override { return "embd-"; }
  json choice(const ChoicePart& part) override {
    return {{"object", "embedding"},
            {"index", part.index},
            {"embedding", formed(numbers(part.pooled))}};
  }

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
  CompletionCall call;
  const std::int64_t width = context.model().hidden_size;
  if (auto error =
          parse_pooled(body, kEmbeddings, context.options.max_sequences_per_request, call)) {
    return error_response(*error);
  }
  if (call.embedding.dimensions > width) {
    return error_response(bad_field("dimensions",
                                    "'dimensions' is {}, and this model's states have {} numbers",
                                    call.embedding.dimensions, width));
  }
  call.pooled_numbers = static_cast<std::uint64_t>(width);
  auto shape = std::make_unique<EmbeddingShape>(call.embedding);
  return answer_pooled(context, request, "/v1/embeddings", std::move(call), std::move(shape));
}

}  // namespace tandem
