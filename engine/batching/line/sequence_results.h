// The results of one sequence: those that wait for something, and the output that its reader has
// received.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "engine/adapters/adapter_store.h"
#include "engine/batching/line/state_sum.h"
#include "engine/continuation/output_text.h"
#include "engine/service/generation.h"
#include "gpu/ops.h"

namespace tandem {

// The samples of a step for a sequence while its adapter's folder was still being read
// (AdapterReading): held back until the adapter's contents are proven.
struct HeldSamples {
  std::vector<SampledToken> samples;  // log probabilities of the prompt, then the next token if any
  StateSum states;                    // of the samples, if the request asks for states
  std::int64_t next_token = -1;       // its index in the sequence's tokens; -1: none
  AdapterProof proof;                 // of the adapter's copy that was used
};

// An ending of a sequence that its filter has found in place of a token.
struct FoundEnding {
  std::int64_t at = -1;  // the token's index in the sequence's tokens; -1: no ending
  FinishReason reason = FinishReason::none;
  Status why;
};

// Dropped when the sequence is replayed.
class SequenceResults {
 public:
  // Samples of ended steps, oldest first; the sequence is not scheduled meanwhile.
  const std::vector<HeldSamples>& held() const { return held_; }
  void hold(HeldSamples samples) { held_.push_back(std::move(samples)); }
  std::vector<HeldSamples> release_held() { return std::exchange(held_, {}); }
  // Counts once the samples before it have been handed out.
  const FoundEnding& ending() const { return ending_; }
  void find_ending(FoundEnding ending) { ending_ = std::move(ending); }
  void drop() {
    held_.clear();
    ending_ = {};
  }

 private:
  std::vector<HeldSamples> held_;
  FoundEnding ending_;
};

// The output that its reader has received.
class SequenceOutput {
 public:
  explicit SequenceOutput(OutputText text) : text_(std::move(text)) {}

  OutputText& text() { return text_; }
  // Called when a token has become known. Returns the seconds since the one before; no value: it is
  // the first.
  std::optional<double> token_came(TimePoint now) {
    const std::optional<TimePoint> before = std::exchange(last_token_, now);
    if (!before) return std::nullopt;
    return seconds_between(*before, now);
  }

 private:
  OutputText text_;
  std::optional<TimePoint> last_token_;
};

}  // namespace tandem
