// Generation requests and their answers: the interface between the callers (REST, the command line,
// a benchmark) and the engine.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/ids/token_id.h"
#include "base/status.h"
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
  std::vector<TokenId> allowed_token_ids;       // only these may be sampled; empty: all
  std::vector<std::vector<TokenId>> bad_words;  // token sequences that may not be generated
  std::optional<std::uint64_t> seed;            // unset: drawn when the request is submitted

  // True if sampling depends on the earlier tokens.
  bool has_penalty() const {
    return repetition_penalty != 1 || presence_penalty != 0 || frequency_penalty != 0;
  }
};

// A constraint on the generated text; the end of the sequence is allowed only where the text is
// complete.
struct TextConstraint {
  enum class Kind {
    none,            // no constraint
    json_object,     // any JSON object; `text` is empty
    json_schema,     // `text` is the schema
    regex,           // `text` is the pattern, which the whole text must match
    grammar,         // `text` is EBNF (GBNF) with the start rule `root`
    structural_tag,  // `text` is XGrammar's JSON: free text with constrained parts inside its tags
  };
  Kind kind = Kind::none;
  std::string text;
  friend bool operator==(const TextConstraint&, const TextConstraint&) = default;
};

// A constraint compiled by an engine (GenerationService::compile), usable only by that engine.
class CompiledConstraint;

// A request may ask for these in place of text. A state is the model's output after its last norm.
enum class Pooling {
  none,     // text is asked for
  last,     // the state of the prompt's last token
  mean,     // the mean of the states of all the prompt's tokens
  classes,  // a number for each label, by the score head of the adapter or else of the base
  score,    // the same of a score head that has one label
};

// The tokens that a continuation generated before this request, here or on another engine, from the
// same prompt with the same options and seed.
struct GeneratedBefore {
  std::vector<TokenId> tokens;  // in order; includes a final stop token
  bool is_over = false;         // the continuation has ended, and its end has been reported
};

// An adapter of several that answer one request together.
struct AdapterPart {
  std::string name;
  float scale = 1;  // of its delta, on top of its own alpha / r; finite
  friend bool operator==(const AdapterPart&, const AdapterPart&) = default;
};
inline constexpr std::size_t kMostAdapterParts = 8;
// "a+b", or "a*0.5+b" with a scale other than 1.
inline std::string name_of(std::span<const AdapterPart> parts) {
  std::string name;
  for (const auto& [adapter, scale] : parts) {
    if (!name.empty()) name += '+';
    name += scale == 1 ? adapter : fmt::format("{}*{}", adapter, scale);
  }
  return name;
}

struct GenerationRequest {
  std::string adapter;  // empty: the base model, or `adapters`
  // If not empty, the sum of these adapters' deltas is added; `adapter` is empty then.
  std::vector<AdapterPart> adapters;
  std::vector<TokenId> prompt;
  SamplingParams sampling;
  TextConstraint constraint;
  std::shared_ptr<const CompiledConstraint> compiled;  // null: submit() compiles it, and blocks
  std::int32_t n = 1;            // independent continuations of the same prompt
  std::int32_t max_tokens = 16;  // per continuation; the context length may shorten it
  std::int32_t min_tokens = 0;   // end tokens and stop strings are ignored before this
  std::vector<std::string> stop;
  std::vector<TokenId> stop_token_ids;
  bool ignore_eos = false;
  bool skip_special_tokens = true;
  std::vector<TokenId> kept_special_tokens;  // special tokens that stay in the text
  bool include_stop = false;                 // keep the stop string in the text
  std::int32_t num_logprobs = -1;            // -1: none; k: of the chosen token and the k best
  bool prompt_logprobs = false;  // for every prompt token except the first (`echo` with logprobs)
  Pooling pooling = Pooling::none;  // other: requires n = 1, max_tokens = 0, nothing before
  std::int32_t priority = 0;        // waiting requests with lower values go first
  std::string tenant;               // unit of fair sharing; empty is a tenant, too
  // Objectives in seconds; 0: none. The first token is due this long after the request was
  // submitted; an engine may give up a request that will miss it (OutputDelta::retry_after_s). The
  // time between tokens is only measured and counted.
  double ttft_deadline_s = 0;
  double tpot_deadline_s = 0;
  // The maximal number of unread deltas of all continuations together, but at least two for each.
  // If there are more, the request is suspended and its place in the batch and its pages go to
  // others, until half of the deltas have been read. 0: no limit.
  std::int32_t max_unread = 0;
  // Empty, or one item per continuation, which continues as if it had generated these tokens now.
  // The reader gets their text in a first delta of each (OutputDelta::is_before), then the new
  // deltas.
  std::vector<GeneratedBefore> before;
  TraceContext trace = {};  // the call's context; spans of this request are its children
};

struct TokenLogprob {
  TokenId token = -1;
  float logprob = 0;
  std::vector<std::pair<TokenId, float>> top;  // in descending order of probability
};

enum class FinishReason { none, stop, length, cancelled, failed };

// New output of one of the n continuations.
struct OutputDelta {
  std::int32_t index = 0;                     // index of the continuation
  std::string text;                           // whole UTF-8 characters only; may be empty
  std::vector<TokenId> tokens;                // new ids, without stop tokens
  std::vector<TokenLogprob> logprobs;         // one per token, if requested
  std::vector<TokenLogprob> prompt_logprobs;  // in the first delta of index 0 (or of the first that
                                              // was not over), if requested
  std::vector<float>
      pooled;  // [hidden] or [labels], with `finish`, if GenerationRequest::pooling asks for it
  FinishReason finish = FinishReason::none;
  std::string stop_reason;  // the stop string that ended it, or the id of the stop token
  Status error;             // set with FinishReason::failed
  // With FinishReason::failed: the request was given up before it began, because its first token
  // would have been late. An estimate of the seconds until such a request may be served; 0: it
  // failed for another reason.
  std::int32_t retry_after_s = 0;
  TokenId end_token = -1;  // the stop token that ended it; -1: none did
  // This delta repeats the contents of GenerationRequest::before; it comes first. `text` is the
  // text of all those tokens, including an end token; that of token i ends at byte text_ends[i]. No
  // log probabilities. A continuation that was over has only `finish`.
  bool is_before = false;
  std::vector<std::uint32_t> text_ends;
};

// Complete with the last delta; the source of REST's fields `usage` and `tandem`.
struct GenerationStats {
  std::int32_t prompt_tokens = 0;
  std::int32_t completion_tokens = 0;  // over all n, including stop tokens
  std::int32_t cached_tokens = 0;      // prompt tokens whose KV was in the prefix cache
  double queue_s = 0;                  // submitted -> first scheduled
  double ttft_s = 0;                   // submitted -> first token
  double total_s = 0;
  std::int32_t preemptions = 0;
  std::string adapter_tier;  // where it was: "device", "loading", "host", "disk"; "" for the base
  std::int32_t cpu_layers = 0;  // layers computed by CPU workers
  TimePoint submitted = {};  // monotonic time of submission, from which the durations above count
};

// The caller's handle of a running request. Destroying it cancels what still runs.
class Generation {
 public:
  virtual ~Generation() = default;
  // Waits at most `timeout` for a delta and returns it, or nothing on time-out. After the deltas
  // with `finish` set for all n continuations there are no more (done() is true). One reader.
  virtual std::optional<OutputDelta> next(Duration timeout) = 0;
  virtual bool done() const = 0;  // all continuations have finished and been read
  // For readers that do not block: `tell` is called whenever next(Duration::zero()) would return a
  // delta or done() has changed, and at once if that is the case already. Set it once, before
  // reading. It runs on the thread that produces the delta, so it must be quick and may not use
  // this object. The destructor waits for a running call, and there are none after it.
  virtual void on_news(std::function<void()> tell) = 0;
  virtual GenerationStats stats() const = 0;
  virtual void cancel() = 0;  // thread-safe, idempotent; takes effect within one step
};

}  // namespace tandem
