// Converts the engine's deltas to the parts of an answer's choices, in output order.
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

// The common base of whole and streamed answers. Not thread-safe.
class AnswerParts {
 protected:
  using TakePart = std::function<void(ChoicePart)>;

  AnswerParts(AnswerJob job, GenerationRun run, HandOver& hand_over, ServerMetrics& metrics);
  ~AnswerParts();
  AnswerParts(const AnswerParts&) = delete;
  AnswerParts& operator=(const AnswerParts&) = delete;

  const AnswerJob& job() const { return job_; }
  GenerationRun& run() { return run_; }
  const nlohmann::json& base() const { return base_; }  // members of every chunk
  std::size_t num_choices() const { return choices_.size(); }
  bool all_finished() const { return finished_ == choices_.size(); }
  std::size_t first_open() const;  // the first choice that has not ended; requires !all_finished()
  void wake_by(std::function<void()> wake);

  // Takes one delta, or one repeated token. False: there is none now, or no more will come
  // (`ended`).
  bool take_one(const TakePart& take);
  // True after the end or a failure; counts the answer in the metrics then.
  bool ended();
  // True if the answer must end although it is incomplete: the server shuts down, or the call is
  // relayed and the engine hands over its relayed calls.
  bool is_moved();
  ApiError why_moved() const;
  // Records, for the trace, the time of a stream's first event.
  void note_told();
  // Writes the log line and the trace, once.
  void log_end(int status);
  ApiError failure() const;

 private:
  struct Choice {
    bool first = true;  // no part has been made of it
    bool over = false;
  };
  // The repeated delta of a continuation, and its next token.
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
  std::vector<std::int32_t> leads_;  // per prompt: continuation that brings the scores; -1: unknown
  std::optional<Before> before_;
  std::size_t finished_ = 0;  // number of choices
  bool counted_ = false;
  bool logged_ = false;
  std::optional<TimePoint> told_since_;
  std::shared_ptr<void> watch_;  // registration with hand_over_; destroyed first
};

}  // namespace tandem
