// From the engine's news to the parts of an answer's choices, in the order in which they are said.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "engine/server/answer/answer.h"
#include "engine/server/answer/generation_run.h"
#include "engine/server/answer/metrics.h"
#include "engine/server/messages/errors.h"

namespace tandem {

// What the ways to answer have in common. One thread at a time.
class AnswerParts {
 protected:
  using TakePart = std::function<void(ChoicePart)>;

  AnswerParts(AnswerJob job, GenerationRun run, HandOver& hand_over, ServerMetrics& metrics);
  ~AnswerParts();
  AnswerParts(const AnswerParts&) = delete;
  AnswerParts& operator=(const AnswerParts&) = delete;

  const AnswerJob& job() const { return job_; }
  GenerationRun& run() { return run_; }
  const nlohmann::json& base() const { return base_; }  // what every chunk has
  std::size_t num_choices() const { return choices_.size(); }
  bool all_finished() const { return finished_ == choices_.size(); }
  std::size_t first_open() const;  // the first choice that goes on; requires !all_finished()
  void wake_by(std::function<void()> wake);

  // One piece of news, or one token of what was said before. False: there is none now, or no more
  // will come (`ended`).
  bool take_one(const TakePart& take);
  // To its end or to a failure, and then counted.
  bool ended();
  // It is to end, though it is not whole: the engine gives its relayed calls away, and this is one,
  // or the server ends.
  bool is_moved();
  ApiError why_moved() const;
  // A stream says something: a trace tells since when.
  void note_told();
  // Once: what the log and a trace say of it.
  void log_end(int status);
  ApiError failure() const;

 private:
  struct Choice {
    bool first = true;  // nothing has been said of it
    bool over = false;
  };
  // What one continuation has said before, and its next token.
  struct Before {
    std::size_t prompt = 0;
    OutputDelta delta;
    std::size_t next = 0;
  };

  std::int32_t n() const { return job_.call.request.n; }
  std::size_t index_of(std::size_t prompt, const OutputDelta& delta) const {
    return static_cast<std::size_t>(n()) * prompt + static_cast<std::size_t>(delta.index);
  }
  std::int32_t lead_of(std::size_t prompt);
  void take_before(std::size_t prompt, OutputDelta& delta);
  void say_before(const TakePart& take);
  void take_delta(std::size_t prompt, OutputDelta& delta, const TakePart& take);
  void pass(std::size_t prompt, OutputDelta& delta, const TakePart& take);
  void begin(std::size_t prompt, std::size_t index, ChoicePart& part);

  AnswerJob job_;
  GenerationRun run_;
  HandOver& hand_over_;
  ServerMetrics& metrics_;
  nlohmann::json base_;
  std::vector<Choice> choices_;
  std::vector<std::shared_ptr<const std::vector<TokenLogprob>>> scores_;  // per prompt
  std::vector<std::vector<OutputDelta>> held_;                            // per prompt
  std::vector<std::int32_t> leads_;  // per prompt: whose news brings the scores; -1: unknown yet
  std::optional<Before> before_;
  std::size_t finished_ = 0;  // choices
  bool counted_ = false;
  bool logged_ = false;
  std::optional<TimePoint> told_since_;
  std::shared_ptr<void> watch_;  // of the handing over; first to go
};

}  // namespace tandem
