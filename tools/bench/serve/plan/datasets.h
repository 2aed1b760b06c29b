// The prompts of a run, read from a file or generated.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "tools/bench/serve/plan/prompts.h"

namespace tandem {

struct DatasetOptions {
  std::string name = "random";
  std::string path;
  std::int64_t input_len = 1024;
  std::int64_t output_len = 0;  // 0: the data set's own length, or else its default
  double range_ratio = 0;       // lengths are uniform from (1 - r) to (1 + r) times the given one
  std::int64_t prefix_len = 0;  // random: tokens that all prompts share, before `input_len`
  std::int64_t num_prefixes = 10;   // prefix_repetition
  std::int64_t block_tokens = 512;  // timed_trace: tokens per hash
  double trace_speed = 1;           // timed_trace: factor by which it is replayed faster
  std::uint64_t seed = 0;
};

struct Dataset {
  std::vector<LoadPrompt> prompts;
  // Only for timed_trace: arrival times from 0 on, and adapters ("" or missing: none given).
  std::vector<double> due_s;
  std::vector<std::string> adapters;
  std::string note;  // remark for readers of the figures; may be empty
};

std::vector<std::string> dataset_names();

// Makes `count` prompts. Shorter files are repeated, but a trace ends where it ends.
//
//   random             pieces of random tokens
//   prefix_repetition  one of several prefixes of `prefix_len` tokens, then `input_len` more
//   sharegpt           a list of conversations: message 1 is the prompt, 2 gives the length
//   custom             a line each: {"prompt": "..." or [ids], "output_tokens": N}
//   timed_trace        a line each: {"timestamp": MS, "input_length", "output_length", "hash_ids"}
//                      (Mooncake's), or what `tandem simulate --requests` reads
//
// An error in a file names the line.
Result<Dataset> make_dataset(const DatasetOptions& options, std::int64_t count,
                             const Tokenizer* tokenizer);

// Makes the data set from a file's text.
Result<Dataset> parse_dataset(const DatasetOptions& options, std::string_view text,
                              std::int64_t count, const Tokenizer* tokenizer);

}  // namespace tandem
