#include "engine/server/answer.h"

#include <exception>
#include <iterator>
#include <optional>
#include <utility>

#include "base/http/sse.h"
#include "engine/server/messages/errors.h"
#include "engine/server/messages/response_building.h"

namespace tandem {
namespace {

using nlohmann::json;

constexpr std::size_t kPullBytes = 32U << 10;  // of events at a time

// What both ways to answer have in common: news becomes parts of choices.
class Answer {
 public:
  Answer(AnswerJob job, GenerationRun run, ServerMetrics& metrics)
      : job_(std::move(job)), run_(std::move(run)), metrics_(metrics) {
    base_ = {{"id", random_id(job_.shape->id_prefix())},
             {"object", job_.shape->object(job_.call.stream)},
             {"created", unix_seconds()},
             {"model", job_.model}};
    parts_.resize(job_.requests.size() * static_cast<std::size_t>(n()));
    scores_.resize(job_.requests.size());
    held_.resize(job_.requests.size());
  }
  ~Answer() {
    if (!counted_) metrics_.count_finish("abort");
  }
  Answer(const Answer&) = delete;
  Answer& operator=(const Answer&) = delete;

 protected:
  using TakePart = std::function<void(ChoicePart)>;

  const AnswerJob& job() const { return job_; }
  GenerationRun& run() { return run_; }
  const json& base() const { return base_; }
  std::size_t num_choices() const { return parts_.size(); }
  bool all_finished() const { return finished_ == parts_.size(); }

  // One piece of news. False: there is none now, or no more will come (`ended`).
  bool take_one(const TakePart& take) {
    auto news = run_.next();
    if (!news) return false;
    take_delta(news->prompt, news->delta, take);
    return true;
  }
  // To its end or to a failure, and then counted.
  bool ended() {
    if (!all_finished() && !run_.failed()) return false;
    if (counted_) return true;
    counted_ = true;
    if (run_.failed()) {
      metrics_.count_finish("error");
    } else {
      for (const GenerationStats& stats : run_.stats()) metrics_.observe(stats, n());
    }
    return true;
  }
  ApiError failure() const {
    if (run_.error().code() == StatusCode::not_found) return model_not_found(job_.model);
    return to_api_error(run_.error());
  }

 private:
  std::int32_t n() const { return job_.call.request.n; }

  // The log probabilities of an echoed prompt come with continuation 0; the others' news waits for
  // them, because every choice's text starts with the prompt.
  void take_delta(std::size_t prompt, OutputDelta& delta, const TakePart& take) {
    if (job_.call.request.prompt_logprobs && !scores_[prompt]) {
      if (delta.index != 0) return held_[prompt].push_back(std::move(delta));
      scores_[prompt] = std::move(delta.prompt_logprobs);
      pass(prompt, delta, take);
      for (OutputDelta& held : held_[prompt]) pass(prompt, held, take);
      held_[prompt].clear();
      return;
    }
    pass(prompt, delta, take);
  }

  void pass(std::size_t prompt, OutputDelta& delta, const TakePart& take) {
    const auto index =
        static_cast<std::size_t>(n()) * prompt + static_cast<std::size_t>(delta.index);
    ChoicePart part;
    part.index = static_cast<std::int32_t>(index);
    part.first = parts_[index].first;
    parts_[index].first = false;
    if (part.first && job_.call.echo) {
      part.text = job_.echoed[prompt];
      if (scores_[prompt]) {
        part.prompt_head = job_.requests[prompt].prompt.front();
        part.prompt_logprobs = *scores_[prompt];
      }
    }
    part.text += delta.text;
    part.logprobs = std::move(delta.logprobs);
    part.finish = delta.finish;
    part.stop_reason = std::move(delta.stop_reason);
    if (part.finish != FinishReason::none) {
      metrics_.count_finish(part.finish == FinishReason::stop ? "stop" : "length");
      ++finished_;
    }
    take(std::move(part));
  }

  AnswerJob job_;
  GenerationRun run_;
  ServerMetrics& metrics_;
  json base_;
  std::vector<ChoicePart> parts_;  // what has been said of each choice: whether anything
  std::vector<std::optional<std::vector<TokenLogprob>>> scores_;  // per prompt
  std::vector<std::vector<OutputDelta>> held_;                    // per prompt
  std::size_t finished_ = 0;                                      // choices
  bool counted_ = false;
};

// Known when everything is.
class WholeAnswer final : public DeferredResponse, private Answer {
 public:
  WholeAnswer(AnswerJob job, GenerationRun run, ServerMetrics& metrics)
      : Answer(std::move(job), std::move(run), metrics), choices_(num_choices()) {}

  void on_ready(std::function<void()> wake) override { run().on_news(std::move(wake)); }

  bool ready() override {
    const auto add = [this](ChoicePart part) {
      ChoicePart& choice = choices_[static_cast<std::size_t>(part.index)];
      if (part.first) {
        choice = std::move(part);
        return;
      }
      choice.text += part.text;
      choice.logprobs.insert(choice.logprobs.end(), std::make_move_iterator(part.logprobs.begin()),
                             std::make_move_iterator(part.logprobs.end()));
      choice.finish = part.finish;
      choice.stop_reason = std::move(part.stop_reason);
    };
    while (take_one(add)) {
    }
    return ended();
  }

  HttpResponse take() override {
    if (run().failed()) return error_response(failure());
    json response = base();
    response["choices"] = json::array();
    for (const ChoicePart& choice : choices_) {
      response["choices"].push_back(job().shape->choice(choice));
    }
    const auto stats = run().stats();
    response["usage"] = usage_json(stats);
    response["tandem"] = tandem_json(stats);
    return json_response(response);
  }

 private:
  std::vector<ChoicePart> choices_;
};

// An event for each piece of news.
class StreamedAnswer final : public BodySource, private Answer {
 public:
  using Answer::Answer;

  void on_ready(std::function<void()> wake) override { run().on_news(std::move(wake)); }
  std::string_view filler() const override { return kSseComment; }

  Pull pull(std::string& out) override {
    try {
      const auto say = [&](const ChoicePart& part) { add_event(part, out); };
      while (out.size() < kPullBytes) {
        if (take_one(say)) continue;
        if (!ended()) return Pull::wait;
        add_last(out);
        return Pull::end;
      }
      return Pull::more;
    } catch (const std::exception& failure) {
      run().cancel();
      out += sse_event(dump(error_json(internal_error(failure.what()))));
      return Pull::end;
    }
  }

 private:
  void add_event(const ChoicePart& part, std::string& out) {
    const bool silent = part.text.empty() && part.logprobs.empty() && !part.prompt_head &&
                        part.finish == FinishReason::none;
    if (silent && !part.first) return;
    json chunk = base();
    chunk["choices"] = json::array({job().shape->chunk_choice(part)});
    if (job().call.include_usage) {
      chunk["usage"] = nullptr;
    } else if (part.finish != FinishReason::none && all_finished()) {
      chunk["tandem"] = tandem_json(run().stats());
    }
    out += sse_event(dump(chunk));
  }

  void add_last(std::string& out) {
    if (run().failed()) {
      out += sse_event(dump(error_json(failure())));
    } else if (job().call.include_usage) {
      const auto stats = run().stats();
      json chunk = base();
      chunk["choices"] = json::array();
      chunk["usage"] = usage_json(stats);
      chunk["tandem"] = tandem_json(stats);
      out += sse_event(dump(chunk));
    }
    out += kSseDone;
  }
};

}  // namespace

HttpResponse answer(AnswerJob job, GenerationService& service, ServerMetrics& metrics) {
  auto run = GenerationRun::submit(service, job.requests);
  if (!run) {
    // An adapter unloaded since the model's name was looked up.
    if (run.status().code() == StatusCode::not_found) {
      return error_response(model_not_found(job.model));
    }
    return error_response(to_api_error(run.status()));
  }
  if (!job.call.stream) {
    HttpResponse response;
    response.deferred = std::make_unique<WholeAnswer>(std::move(job), std::move(*run), metrics);
    return response;
  }
  HttpResponse response = sse_response();
  response.source = std::make_unique<StreamedAnswer>(std::move(job), std::move(*run), metrics);
  return response;
}

}  // namespace tandem
