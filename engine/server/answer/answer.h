// Runs a checked completions or chat call and says its answer, whole or streamed. What the two
// kinds of call have in common; their JSON shapes are completions.cpp's and chat.cpp's.
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
#include "engine/server/messages/request_fields.h"
#include "engine/server/options/server_options.h"

namespace tandem {

// News of one choice, or all of it.
struct ChoicePart {
  std::int32_t index = 0;  // prompt x n + continuation
  bool first = true;       // of this choice
  std::string text;
  std::vector<TokenId> tokens;  // that were generated, an end token too
  std::vector<TokenLogprob> logprobs;
  // Of an echoed prompt, with the first part: its first token, and the others' log probabilities.
  std::optional<TokenId> prompt_head;
  std::shared_ptr<const std::vector<TokenLogprob>>
      prompt_logprobs;  // the choices' own; may be null
  FinishReason finish = FinishReason::none;
  std::string stop_reason;
  // It was said before, by another engine; what a shape remembers of it counts, what it makes of it
  // does not, but for the chunks after the first `told` (nothing: all were told).
  bool is_before = false;
  std::optional<std::size_t> told;
};

// How a kind of call looks. One per call: may keep state between the parts of a choice.
class AnswerShape {
 public:
  virtual ~AnswerShape() = default;
  virtual const char* id_prefix() const = 0;
  virtual const char* object(bool streamed) const = 0;
  virtual nlohmann::json choice(const ChoicePart& whole) = 0;
  // A chunk each, in this order; at least one at the end of a choice. `part` is not empty, or the
  // first.
  virtual std::vector<nlohmann::json> chunk_choices(const ChoicePart& part) = 0;
  // Of a chunk that says nothing, which every client takes for what it is.
  virtual nlohmann::json silent_choice(std::size_t index) const = 0;
};

struct AnswerJob {
  CompletionCall call;
  std::vector<GenerationRequest> requests;
  std::string model;                // as asked for
  std::vector<std::string> echoed;  // per prompt, with echo
  std::unique_ptr<AnswerShape> shape;
  LoggedCall logged;
  bool may_come_back = false;  // an adapter that is not here may be had again: ask once more
  std::optional<RelayedCall> relayed;  // by a router; its `sent` is in the requests, too
};

struct AnswerLimits {
  std::uint64_t max_bytes;  // of one answer; a dearer call is a 400
  AnswerBudget* budget;     // of all at once; a 429 when it is used up
  HandOver* hand_over;      // ends those that a router has passed on; outlives the answers
  bool early_abort;         // the engine gives up what would miss its first-token deadline
};

// Submits; a refusal is the response. Waits for nothing: the response is deferred, or streamed.
HttpResponse answer(AnswerJob job, const AnswerLimits& limits, GenerationService& service,
                    ServerMetrics& metrics);

}  // namespace tandem
