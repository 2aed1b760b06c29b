// Streams with known texts: requests to engines of the demo model, and the answers.
#pragma once

#include <iosfwd>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tandem {

// Arguments of `tandem serve` for the demo model on a free port. It uses float32, because in bf16 a
// near-tie depends on the size of the batch.
std::vector<std::string> engine_words();

struct StreamCall {
  std::string path;
  nlohmann::json body;
};

// One call for each kind of state that the next engine has to reconstruct.
std::vector<StreamCall> stream_calls(int max_tokens);

// A client's answer, choice by choice; log-probabilities are texts of their tokens.
struct Told {
  std::map<int, std::string> texts;
  std::map<int, std::string> finishes;
  std::map<int, std::string> logprob_tokens;
  std::string wrong;  // an error; empty: none
  bool done = false;

  void take(const std::string& event);
  bool operator==(const Told&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Told& told);

}  // namespace tandem
