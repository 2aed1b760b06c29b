#include "engine/server/answer/answer_parts.h"

#include <new>
#include <utility>

#include <fmt/format.h>

#include "base/log/log.h"
#include "engine/server/answer/request_trace.h"
#include "engine/server/messages/response_building.h"

namespace tandem {
namespace {

// Placeholders for the log probabilities of a prompt's tokens, which have been sent before.
std::shared_ptr<const std::vector<TokenLogprob>> told_scores(const std::vector<TokenId>& prompt) {
  auto scores = std::make_shared<std::vector<TokenLogprob>>();
  for (std::size_t i = 1; i < prompt.size(); ++i) scores->push_back({prompt[i], 0, {}});
  return scores;
}

}  // namespace

AnswerParts::AnswerParts(AnswerJob job, GenerationRun run, HandOver& hand_over,
                         ServerMetrics& metrics)
    : job_(std::move(job)), run_(std::move(run)), hand_over_(hand_over), metrics_(metrics) {
  base_ = {{"id", job_.relayed ? job_.relayed->id : random_id(job_.shape->id_prefix())},
           {"object", job_.shape->object(job_.call.stream)},
           {"created", job_.relayed ? job_.relayed->created : unix_seconds()},
           {"model", job_.model}};
  choices_.resize(job_.requests.size() * static_cast<std::size_t>(n()));
  scores_.resize(job_.requests.size());
  held_.resize(job_.requests.size());
  leads_.assign(job_.requests.size(), -1);
}

AnswerParts::~AnswerParts() {
  watch_.reset();
  if (!counted_) metrics_.count_finish("abort");
  log_end(kClientGone);
}

void AnswerParts::wake_by(std::function<void()> wake) {
  watch_ = hand_over_.watch(wake);
  run_.on_news(std::move(wake));
}

bool AnswerParts::take_one(const TakePart& take) {
  if (before_) {
    say_before(take);
    return true;
  }
  auto news = run_.next();
  if (!news) return false;
  if (news->delta.is_before) {
    take_before(news->prompt, news->delta);
  } else {
    take_delta(news->prompt, news->delta, take);
  }
  return true;
}

bool AnswerParts::ended() {
  if (!all_finished() && !run_.failed()) return false;
  if (counted_) return true;
  counted_ = true;
  const bool given_up = run_.retry_after_s() > 0;
  if (run_.failed()) metrics_.count_finish(given_up ? "abort" : "error");
  if (run_.failed() && !given_up) return true;
  const std::vector<GenerationStats> all = run_.stats();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!given_up) metrics_.observe(all[i], n());
    metrics_.observe_objectives(job_.requests[i], all[i]);
  }
  return true;
}

std::size_t AnswerParts::first_open() const {
  std::size_t index = 0;
  while (choices_[index].over) ++index;
  return index;
}

bool AnswerParts::is_moved() {
  const bool asked = job_.relayed.has_value() && hand_over_.is_asked();
  return (asked || hand_over_.is_cut()) && !all_finished();
}

ApiError AnswerParts::why_moved() const {
  return job_.relayed.has_value() ? moved_error() : cut_error();
}

void AnswerParts::note_told() {
  if (job_.logged.trace.sampled && !told_since_) told_since_ = SteadyClock().now();
}

void AnswerParts::log_end(int status) {
  const bool traced = job_.logged.trace.sampled;
  if (logged_ || !(job_.logged.enabled || traced)) return;
  logged_ = true;
  try {
    const std::vector<GenerationStats> stats = run_.stats();
    if (traced) trace_call(job_.logged, status, stats, told_since_);
    if (job_.logged.enabled) log_call(job_.logged, status, stats);
  } catch (const std::bad_alloc&) {  // the answer must not fail for want of its log line
  }
}

ApiError AnswerParts::failure() const {
  if (run_.error().code() == StatusCode::not_found) return model_not_found(job_.model);
  if (const std::int32_t seconds = run_.retry_after_s(); seconds > 0) {
    return {429,
            fmt::format("The request was given up before it began: {}. Ask again in about {} s, or "
                        "give it more time by the header x-slo-ttft-ms",
                        run_.error().message(), seconds),
            {},
            "deadline_unreachable",
            seconds};
  }
  return to_api_error(run_.error());
}

// This is the first delta of its continuation; all of its tokens are replayed before any new delta.
void AnswerParts::take_before(std::size_t prompt, OutputDelta& delta) {
  if (!delta.tokens.empty()) {
    before_.emplace(Before{prompt, std::move(delta), 0});
    return;
  }
  if (delta.finish == FinishReason::none) return;
  choices_[index_of(prompt, delta)] = {.first = false, .over = true};
  ++finished_;
}

void AnswerParts::say_before(const TakePart& take) {
  Before& before = *before_;
  OutputDelta& delta = before.delta;
  const std::size_t i = before.next++;
  const bool is_last = before.next == delta.tokens.size();
  const std::size_t index = index_of(before.prompt, delta);
  ChoicePart part;
  part.is_before = true;
  if (choices_[index].first && job_.call.request.prompt_logprobs) {
    part.prompt_logprobs = told_scores(job_.requests[before.prompt].prompt);
  }
  begin(before.prompt, index, part);
  const std::size_t from = i == 0 ? 0 : delta.text_ends[i - 1];
  part.text += delta.text.substr(from, delta.text_ends[i] - from);
  const bool is_end_token = is_last && delta.end_token >= 0;
  if (job_.call.logprobs && !is_end_token) part.logprobs.push_back({delta.tokens[i], 0, {}});
  if (is_last) {
    part.told = job_.relayed ? job_.relayed->sent[index].events : std::nullopt;
    part.finish = delta.finish;
    part.stop_reason = std::move(delta.stop_reason);
    before_.reset();
  }
  if (part.finish != FinishReason::none) {
    choices_[index].over = true;
    ++finished_;
  }
  take(std::move(part));
}

// At this point all repeated deltas of this prompt have been read.
std::int32_t AnswerParts::lead_of(std::size_t prompt) {
  std::int32_t& lead = leads_[prompt];
  if (lead < 0) {
    const std::size_t first = prompt * static_cast<std::size_t>(n());
    for (lead = 0; lead + 1 < n() && choices_[first + static_cast<std::size_t>(lead)].over;) ++lead;
  }
  return lead;
}

// The log probabilities of an echoed prompt come with one continuation. The first parts of the
// others wait for them, because every choice's text starts with the prompt.
void AnswerParts::take_delta(std::size_t prompt, OutputDelta& delta, const TakePart& take) {
  if (job_.requests[prompt].prompt_logprobs && !scores_[prompt]) {
    if (delta.index != lead_of(prompt)) {
      if (choices_[index_of(prompt, delta)].first) {
        return held_[prompt].push_back(std::move(delta));
      }
      return pass(prompt, delta, take);
    }
    scores_[prompt] =
        std::make_shared<const std::vector<TokenLogprob>>(std::move(delta.prompt_logprobs));
    pass(prompt, delta, take);
    for (OutputDelta& held : held_[prompt]) pass(prompt, held, take);
    held_[prompt].clear();
    return;
  }
  pass(prompt, delta, take);
}

// Adds the echoed prompt to a choice's first part.
void AnswerParts::begin(std::size_t prompt, std::size_t index, ChoicePart& part) {
  part.index = static_cast<std::int32_t>(index);
  part.first = std::exchange(choices_[index].first, false);
  if (!part.first || !job_.call.echo) return;
  part.text = job_.echoed[prompt];
  if (part.prompt_logprobs != nullptr) part.prompt_head = job_.requests[prompt].prompt.front();
}

void AnswerParts::pass(std::size_t prompt, OutputDelta& delta, const TakePart& take) {
  const std::size_t index = index_of(prompt, delta);
  ChoicePart part;
  if (choices_[index].first && job_.call.echo) part.prompt_logprobs = scores_[prompt];
  begin(prompt, index, part);
  part.text += delta.text;
  part.tokens = std::move(delta.tokens);
  if (delta.end_token >= 0) part.tokens.push_back(delta.end_token);
  part.logprobs = std::move(delta.logprobs);
  part.pooled = std::move(delta.pooled);
  part.finish = delta.finish;
  part.stop_reason = std::move(delta.stop_reason);
  if (part.finish != FinishReason::none) {
    metrics_.count_finish(part.finish == FinishReason::stop ? "stop" : "length");
    choices_[index].over = true;
    ++finished_;
  }
  take(std::move(part));
}

}  // namespace tandem
