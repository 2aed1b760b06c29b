// POST /v1/classify, /v1/score and /v1/rerank: the numbers of score heads.
#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "engine/server/calls/pooled.h"
#include "engine/server/messages/request/request_parsing.h"

namespace tandem {
namespace {

using nlohmann::json;

constexpr std::uint64_t kMostLabels = 1024;  // kMaxLabels of ModelSpec

double sigmoid(float x) {
  return 1 / (1 + std::exp(-static_cast<double>(x)));
}

// The probabilities of the labels: of one alone that it is so, of several that it is each.
std::vector<float> probabilities(std::vector<float> scores) {
  if (scores.size() == 1) return {static_cast<float>(sigmoid(scores.front()))};
  const float most = std::ranges::max(scores);
  double sum = 0;
  for (float& score : scores) {
    score = std::exp(score - most);
    sum += score;
  }
  for (float& score : scores) score = static_cast<float>(score / sum);
  return scores;
}

// The numbers as the request wants them.
std::vector<float> formed(const ChoicePart& part, const ScoreForm& form) {
  return form.use_activation ? probabilities(part.pooled) : part.pooled;
}

class ClassShape final : public PooledShape {
 public:
  ClassShape(const ScoreForm& form, std::span<const std::string> labels)
      : form_(form), labels_(labels) {}

  const char* id_prefix() const override { return "classify-"; }
  json choice(const ChoicePart& part) override {
    const std::vector<float> numbers = formed(part, form_);
    const std::size_t best =
        static_cast<std::size_t>(std::ranges::max_element(numbers) - numbers.begin());
    json probs = json::array();
    for (const float number : numbers) probs.push_back(with_few_digits(number));
    return {{"index", part.index},
            {"label", name_of(best, numbers.size())},
            {"probs", std::move(probs)},
            {"num_classes", numbers.size()}};
  }

 private:
  // An adapter does not say its labels; if it has as many as the base, they are the base's.
  std::string name_of(std::size_t label, std::size_t count) const {
    return count == labels_.size() ? labels_[label] : fmt::format("LABEL_{}", label);
  }

  ScoreForm form_;
  std::span<const std::string> labels_;  // the base's
};

class ScoreShape final : public PooledShape {
 public:
  explicit ScoreShape(const ScoreForm& form) : form_(form) {}

  const char* id_prefix() const override { return "score-"; }
  json choice(const ChoicePart& part) override {
    return {{"index", part.index},
            {"object", "score"},
            {"score", with_few_digits(formed(part, form_).front())}};
  }

 private:
  ScoreForm form_;
};

// Documents in the order of their scores, the best first.
class RankShape final : public PooledShape {
 public:
  RankShape(const ScoreForm& form, std::vector<std::string> documents)
      : form_(form), documents_(std::move(documents)) {}

  const char* id_prefix() const override { return "rerank-"; }
  const char* list() const override { return "results"; }
  void arrange(std::vector<ChoicePart>& choices) override {
    // By the scores themselves, as large ones have one probability.
    std::ranges::stable_sort(choices, std::greater(),
                             [](const ChoicePart& part) { return part.pooled.front(); });
    const auto most = static_cast<std::size_t>(form_.top_n);
    if (most > 0 && most < choices.size()) choices.resize(most);
  }
  json choice(const ChoicePart& part) override {
    json result{{"index", part.index},
                {"relevance_score", with_few_digits(formed(part, form_).front())}};
    if (form_.return_documents) {
      result["document"] = {{"text", documents_[static_cast<std::size_t>(part.index)]}};
    }
    return result;
  }

 private:
  ScoreForm form_;
  std::vector<std::string> documents_;
};

}  // namespace

HttpResponse calls::classify(CallContext& context, const HttpRequest& request, const json& body) {
  CompletionCall call;
  if (auto error = parse_pooled(body, kClassify, context.options.max_sequences_per_request, call)) {
    return error_response(*error);
  }
  call.pooled_numbers = kMostLabels;
  auto shape = std::make_unique<ClassShape>(call.score, context.model().labels);
  return answer_pooled(context, request, "/v1/classify", std::move(call), std::move(shape));
}

HttpResponse calls::score(CallContext& context, const HttpRequest& request, const json& body) {
  CompletionCall call;
  if (auto error = parse_pooled(body, kScore, context.options.max_sequences_per_request, call)) {
    return error_response(*error);
  }
  auto shape = std::make_unique<ScoreShape>(call.score);
  return answer_pooled(context, request, "/v1/score", std::move(call), std::move(shape));
}

HttpResponse calls::rerank(CallContext& context, const HttpRequest& request, const json& body) {
  CompletionCall call;
  if (auto error = parse_pooled(body, kRerank, context.options.max_sequences_per_request, call)) {
    return error_response(*error);
  }
  std::vector<std::string> documents;
  for (const Prompt& prompt : call.prompts) documents.push_back(*prompt.text);
  auto shape = std::make_unique<RankShape>(call.score, std::move(documents));
  return answer_pooled(context, request, "/v1/rerank", std::move(call), std::move(shape));
}

}  // namespace tandem
