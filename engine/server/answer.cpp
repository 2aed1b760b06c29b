#include "engine/server/answer.h"

#include <exception>
#include <optional>

#include "engine/server/http/sse.h"
#include "engine/server/messages/errors.h"
#include "engine/server/messages/response_building.h"

namespace tandem {
namespace {

using nlohmann::json;

constexpr int kClientGone = 499;  // nobody reads it; the metrics count it

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

  HttpResponse whole(const std::function<bool()>& client_gone) {
    std::vector<ChoicePart> choices = parts_;
    const auto take = [&](ChoicePart part) {
      ChoicePart& choice = choices[static_cast<std::size_t>(part.index)];
      if (part.first) {
        choice = std::move(part);
        return true;
      }
      choice.text += part.text;
      choice.logprobs.insert(choice.logprobs.end(), std::make_move_iterator(part.logprobs.begin()),
                             std::make_move_iterator(part.logprobs.end()));
      choice.finish = part.finish;
      choice.stop_reason = std::move(part.stop_reason);
      return true;
    };
    const auto end = run(take, client_gone);
    if (end == GenerationRun::End::failed) return error_response(failure());
    if (end == GenerationRun::End::client_gone) return json_response(json::object(), kClientGone);
    json response = base_;
    response["choices"] = json::array();
    for (const ChoicePart& choice : choices) {
      response["choices"].push_back(job_.shape->choice(choice));
    }
    const auto stats = run_.stats();
    response["usage"] = usage_json(stats);
    response["tandem"] = tandem_json(stats);
    return json_response(response);
  }

  void stream(BodyWriter& writer) {
    const auto take = [&](const ChoicePart& part) {
      const bool silent = part.text.empty() && part.logprobs.empty() && !part.prompt_head &&
                          part.finish == FinishReason::none;
      if (silent && !part.first) return true;
      json chunk = base_;
      chunk["choices"] = json::array({job_.shape->chunk_choice(part)});
      if (job_.call.include_usage) {
        chunk["usage"] = nullptr;
      } else if (part.finish != FinishReason::none && run_.done()) {
        chunk["tandem"] = tandem_json(run_.stats());
      }
      return writer.write(sse_event(dump(chunk)));
    };
    const auto end = run(take, [&] { return writer.client_gone(); });
    if (end == GenerationRun::End::client_gone) return;
    std::string last;
    if (end == GenerationRun::End::failed) {
      last = sse_event(dump(error_json(failure())));
    } else if (job_.call.include_usage) {
      const auto stats = run_.stats();
      json chunk = base_;
      chunk["choices"] = json::array();
      chunk["usage"] = usage_json(stats);
      chunk["tandem"] = tandem_json(stats);
      last = sse_event(dump(chunk));
    }
    last += kSseDone;
    writer.write(last);
  }

 private:
  using TakePart = std::function<bool(ChoicePart)>;
  std::int32_t n() const { return job_.call.request.n; }

  ApiError failure() const {
    if (run_.error().code() == StatusCode::not_found) return model_not_found(job_.model);
    return to_api_error(run_.error());
  }

  GenerationRun::End run(const TakePart& take, const std::function<bool()>& client_gone) {
    const auto end = run_.run(
        [&](std::size_t prompt, OutputDelta& delta) { return take_delta(prompt, delta, take); },
        client_gone);
    if (end == GenerationRun::End::done) {
      for (const GenerationStats& stats : run_.stats()) metrics_.observe(stats, n());
    } else {
      metrics_.count_finish(end == GenerationRun::End::failed ? "error" : "abort");
    }
    return end;
  }

  // The log probabilities of an echoed prompt come with continuation 0; the others' news waits for
  // them, because every choice's text starts with the prompt.
  bool take_delta(std::size_t prompt, OutputDelta& delta, const TakePart& take) {
    if (job_.call.request.prompt_logprobs && !scores_[prompt]) {
      if (delta.index != 0) {
        held_[prompt].push_back(std::move(delta));
        return true;
      }
      scores_[prompt] = std::move(delta.prompt_logprobs);
      if (!pass(prompt, delta, take)) return false;
      for (OutputDelta& held : held_[prompt]) {
        if (!pass(prompt, held, take)) return false;
      }
      held_[prompt].clear();
      return true;
    }
    return pass(prompt, delta, take);
  }

  bool pass(std::size_t prompt, OutputDelta& delta, const TakePart& take) {
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
    }
    return take(std::move(part));
  }

  AnswerJob job_;
  GenerationRun run_;
  ServerMetrics& metrics_;
  json base_;
  std::vector<ChoicePart> parts_;  // what has been said of each choice: whether anything
  std::vector<std::optional<std::vector<TokenLogprob>>> scores_;  // per prompt
  std::vector<std::vector<OutputDelta>> held_;                    // per prompt
};

}  // namespace

HttpResponse answer(AnswerJob job, GenerationService& service, ServerMetrics& metrics,
                    const std::function<bool()>& client_gone) {
  auto run = GenerationRun::submit(service, job.requests);
  if (!run) {
    // An adapter unloaded since the model's name was looked up.
    if (run.status().code() == StatusCode::not_found) {
      return error_response(model_not_found(job.model));
    }
    return error_response(to_api_error(run.status()));
  }
  const bool streamed = job.call.stream;
  auto running = std::make_shared<Answer>(std::move(job), std::move(*run), metrics);
  if (!streamed) return running->whole(client_gone);
  HttpResponse response = sse_response();
  response.stream = [running](BodyWriter& writer) {
    try {
      running->stream(writer);
    } catch (const std::exception& failure) {
      writer.write(sse_event(dump(error_json(internal_error(failure.what())))));
    }
  };
  return response;
}

}  // namespace tandem
