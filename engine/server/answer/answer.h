// Runs a checked completions, chat or embeddings call and writes its answer, whole or streamed.
// This is the part common to these calls; their JSON shapes are in the files of the calls.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/http/http_message.h"
#include "engine/server/answer/answer_price.h"
#include "engine/server/answer/generation_run.h"
#include "engine/server/answer/metrics.h"
#include "engine/server/answer/request_log.h"
#include "engine/server/cluster/hand_over.h"
#include "engine/server/cluster/relayed_call.h"
#include "engine/server/messages/request/request_fields.h"
#include "engine/server/options/server_options.h"

namespace tandem {

// New output of one choice, or all of it.
struct ChoicePart {
  std::int32_t index = 0;  // prompt number x n + continuation
  bool first = true;       // the first part of this choice
  std::string text;
  std::vector<TokenId> tokens;  // generated tokens, including an end token
  std::vector<TokenLogprob> logprobs;
  std::vector<float> pooled;  // as in OutputDelta
  // For an echoed prompt, in the first part: its first token, and the log probabilities of the
  // others.
  std::optional<TokenId> prompt_head;
  std::shared_ptr<const std::vector<TokenLogprob>>
      prompt_logprobs;  // the choices share it; may be null
  FinishReason finish = FinishReason::none;
  std::string stop_reason;
  // The part repeats output of another engine. It updates the state of a shape, but its chunks are
  // dropped, except those after the first `told` (unset: all were sent).
  bool is_before = false;
  std::optional<std::size_t> told;
};

// The JSON shape of one kind of call. One object per call; may keep state between the parts of a
// choice.
class AnswerShape {
 public:
  virtual ~AnswerShape() = default;
  virtual const char* id_prefix() const = 0;
  virtual const char* object(bool streamed) const = 0;
  // The member of a whole answer that lists its choices.
  virtual const char* list() const { return "choices"; }
  // Orders a whole answer's choices, and may leave out some; they come in the order of prompts.
  virtual void arrange(std::vector<ChoicePart>& /*choices*/) {}
  virtual nlohmann::json choice(const ChoicePart& whole) = 0;
  // Returns the chunks of a part, in order; at least one at the end of a choice. `part` is not
  // empty, or it is the first.
  virtual std::vector<nlohmann::json> chunk_choices(const ChoicePart& part) = 0;
  // Returns a choice without content, which every client accepts, for a keep-alive chunk.
  virtual nlohmann::json silent_choice(std::size_t index) const = 0;
};

struct AnswerJob {
  CompletionCall call;
  std::vector<GenerationRequest> requests;
  std::string model;                      // as in the request
  std::vector<std::string> echoed;        // one per prompt, with echo
  std::shared_ptr<const TextCodec> text;  // that the shape uses
  std::unique_ptr<AnswerShape> shape;
  LoggedCall logged;
  bool may_come_back = false;          // an absent adapter may return: tell the client to retry
  std::optional<RelayedCall> relayed;  // set for a router's call; `sent` is in the requests, too
};

struct AnswerLimits {
  std::uint64_t max_bytes;  // limit for one answer; a call above it is a 400
  AnswerBudget* budget;     // limit for all answers together; a 429 if it is used up
  HandOver* hand_over;      // ends answers that a router passed on; outlives the answers
  bool early_abort;         // the engine gives up requests whose first token will be late
};

// Submits the job and returns at once: the response is a refusal, deferred, or streamed.
HttpResponse answer(AnswerJob job, const AnswerLimits& limits, GenerationService& service,
                    ServerMetrics& metrics);

}  // namespace tandem
