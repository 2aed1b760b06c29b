// What a generation request is, and how its answer comes back: the contract between whoever asks
// (REST, the command line, a benchmark) and the engine.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "base/token_id.h"

namespace tandem {

struct SamplingParams {
  double temperature = 1;  // 0: greedy
  double top_p = 1;
  std::int32_t top_k = 0;  // 0: all
  double min_p = 0;
  double presence_penalty = 0;
  double frequency_penalty = 0;
  double repetition_penalty = 1;
  std::vector<std::pair<TokenId, float>> logit_bias;
  std::vector<TokenId> allowed_token_ids;       // no other may be drawn; empty: all
  std::vector<std::vector<TokenId>> bad_words;  // may not be generated, as these tokens
  std::optional<std::uint64_t> seed;            // none: drawn when the request is submitted

  // Draws depend on which tokens were there before.
  bool has_penalty() const {
    return repetition_penalty != 1 || presence_penalty != 0 || frequency_penalty != 0;
  }
};

// What the generated text must be; the end of the sequence is allowed where the text is whole.
struct TextConstraint {
  enum class Kind {
    none,            // anything
    json_object,     // any JSON object; `text` is empty
    json_schema,     // `text`: the schema
    regex,           // `text`: the pattern, for the whole text
    grammar,         // `text`: EBNF (GBNF), its start rule `root`
    structural_tag,  // `text`: XGrammar's JSON: free text but for what stands inside its tags
  };
  Kind kind = Kind::none;
  std::string text;
  friend bool operator==(const TextConstraint&, const TextConstraint&) = default;
};

// What an engine has made of one (GenerationService::compile); for its engine alone.
class CompiledConstraint;

struct GenerationRequest {
  std::string adapter;  // empty: the base model
  std::vector<TokenId> prompt;
  SamplingParams sampling;
  TextConstraint constraint;
  std::shared_ptr<const CompiledConstraint> compiled;  // null: submit() compiles it, and waits
  std::int32_t n = 1;            // independent continuations of the same prompt
  std::int32_t max_tokens = 16;  // of each; the context length cuts it shorter
  std::int32_t min_tokens = 0;   // end tokens and stops do not count before this
  std::vector<std::string> stop;
  std::vector<TokenId> stop_token_ids;
  bool ignore_eos = false;
  bool skip_special_tokens = true;
  std::vector<TokenId> kept_special_tokens;  // stay in the text all the same
  bool include_stop = false;                 // keep the stop string in the text
  std::int32_t num_logprobs = -1;            // -1: none; k: the chosen token and the k best
  bool prompt_logprobs = false;  // of every prompt token but the first (`echo` with logprobs)
  std::int32_t priority = 0;     // lower goes first among the waiting
  // Deltas of each continuation that may wait for the reader, on average; with more the request
  // stands aside, its place in the batch and its pages going to others, until half are read. 0:
  // any number may wait.
  std::int32_t max_unread = 0;
};

struct TokenLogprob {
  TokenId token = -1;
  float logprob = 0;
  std::vector<std::pair<TokenId, float>> top;  // most likely first
};

enum class FinishReason { none, stop, length, cancelled, failed };

// One piece of news about one of the n continuations.
struct OutputDelta {
  std::int32_t index = 0;                     // which continuation
  std::string text;                           // whole UTF-8 characters; may be empty
  std::vector<TokenId> tokens;                // new ids, stop token excluded
  std::vector<TokenLogprob> logprobs;         // as tokens, when asked for
  std::vector<TokenLogprob> prompt_logprobs;  // with the first delta of index 0, when asked for
  FinishReason finish = FinishReason::none;
  std::string stop_reason;  // the stop string, or the stop token's id, that ended it
  Status error;             // with FinishReason::failed
};

// Told with the last delta; REST's `usage` and `tandem` fields.
struct GenerationStats {
  std::int32_t prompt_tokens = 0;
  std::int32_t completion_tokens = 0;  // over all n, stop tokens included
  std::int32_t cached_tokens = 0;      // prompt tokens whose KV was found in the prefix cache
  double queue_s = 0;                  // submitted -> first scheduled
  double ttft_s = 0;                   // submitted -> first token
  double total_s = 0;
  std::int32_t preemptions = 0;
  std::string adapter_tier;  // where it was found: "device", "loading", "host", "disk"; "" for base
  std::int32_t cpu_layers = 0;  // layers served by CPU workers
};

// The asker's end of a running request. Destroying it cancels what still runs.
class Generation {
 public:
  virtual ~Generation() = default;
  // Waits at most `timeout` for news. Returns it; or nothing on time-out; after the deltas with
  // finish set for all n continuations there is nothing more (done() is true). One reader.
  virtual std::optional<OutputDelta> next(Duration timeout) = 0;
  virtual bool done() const = 0;  // every continuation has finished and been read
  // For a reader that does not wait: `tell` is called whenever there is something new for
  // next(Duration::zero()), or done() has changed, and at once if that is so already. Set it once,
  // before reading. It is called by whoever brings the news, so it must be quick and may not touch
  // this object; the destructor waits for a call under way, and there is none after it.
  virtual void on_news(std::function<void()> tell) = 0;
  virtual GenerationStats stats() const = 0;
  virtual void cancel() = 0;  // thread-safe, idempotent; takes effect within one step
};

}  // namespace tandem
