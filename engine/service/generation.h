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
#include "base/trace/trace_context.h"

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

// What a continuation has generated before this request, here or on another engine, from the same
// prompt with the same options and seed.
struct GeneratedBefore {
  std::vector<TokenId> tokens;  // in order; a stop token that ended it is the last
  bool is_over = false;         // it has ended, and nothing more is to be said of it
};

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
  std::string tenant;            // whose service is shared fairly; empty: a tenant like any other
  // Objectives in seconds; 0: none. The first token is due so long after the request was submitted:
  // an engine may give up what will miss that (OutputDelta::retry_after_s). The time between tokens
  // is told and counted, and changes nothing.
  double ttft_deadline_s = 0;
  double tpot_deadline_s = 0;
  // Deltas of all continuations together that may wait for the reader, but two of each in any case;
  // with more the request stands aside, its place in the batch and its pages going to others, until
  // half are read. 0: any number may wait.
  std::int32_t max_unread = 0;
  // Empty, or of each continuation: it goes on as if it had generated these tokens now. The reader
  // gets what they said in a first delta of each (OutputDelta::is_before), then the news.
  std::vector<GeneratedBefore> before;
  TraceContext trace = {};  // of the call: what is done for it is told below its span
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
  std::vector<TokenLogprob> prompt_logprobs;  // with the first news of index 0 (or of the first
                                              // that was not over), if asked for
  FinishReason finish = FinishReason::none;
  std::string stop_reason;  // the stop string, or the stop token's id, that ended it
  Status error;             // with FinishReason::failed
  // With FinishReason::failed: it was given up before it began, since its first token would have
  // come too late. Seconds until such a request may be served, a guess; 0: it failed otherwise.
  std::int32_t retry_after_s = 0;
  TokenId end_token = -1;  // the stop token that ended it; -1: none did
  // What GenerationRequest::before has said: comes first, and is no news. `text` is that of all its
  // tokens, token i's ends at byte text_ends[i]; an end token is among them, too; no log
  // probabilities. Of a continuation that was over, `finish` alone.
  bool is_before = false;
  std::vector<std::uint32_t> text_ends;
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
  TimePoint submitted = {};  // by the machine's monotonic clock; what is told above counts from it
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
