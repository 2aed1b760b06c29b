// Streams whose text is known: what to ask engines of the demo model, and what was told.
#pragma once

#include <iosfwd>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tandem {

// `tandem serve` of the demo model on port 0. float32: in bf16 a near-tie may fall either way with
// the batch's size.
std::vector<std::string> engine_words();

struct StreamCall {
  std::string path;
  nlohmann::json body;
};

// One of each kind of state that the next engine must come to.
std::vector<StreamCall> stream_calls(int max_tokens);

// What a client was told, choice by choice; log probabilities as texts of their tokens.
struct Told {
  std::map<int, std::string> texts;
  std::map<int, std::string> finishes;
  std::map<int, std::string> logprob_tokens;
  std::string wrong;  // empty: nothing
  bool done = false;

  void take(const std::string& event);
  bool operator==(const Told&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Told& told);

}  // namespace tandem
