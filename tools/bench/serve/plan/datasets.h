// The prompts of a run, from a file or made up.
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
  std::int64_t output_len = 0;  // 0: what the data set says, or else its own default
  double range_ratio = 0;       // lengths are from (1 - r) to (1 + r) times theirs, as often each
  std::int64_t prefix_len = 0;  // random: all begin alike, so many tokens before `input_len`
  std::int64_t num_prefixes = 10;   // prefix_repetition
  std::int64_t block_tokens = 512;  // timed_trace: of each of its hashes
  double trace_speed = 1;           // timed_trace: so many times as fast as it was recorded
  std::uint64_t seed = 0;
};

struct Dataset {
  std::vector<LoadPrompt> prompts;
  // Of timed_trace alone: when each comes, from 0 on, and for whom ("" or absent: not told).
  std::vector<double> due_s;
  std::vector<std::string> adapters;
  std::string note;  // what a reader of the figures has to know; may be empty
};

std::vector<std::string> dataset_names();

// `count` prompts: files with fewer are begun anew; a trace is never longer than it is.
//
//   random             pieces of random tokens
//   prefix_repetition  one of so many beginnings of `prefix_len` tokens, then `input_len` more
//   sharegpt           a list of conversations: the first turn asks, the second says how long
//   custom             a line each: {"prompt": "..." or [ids], "output_tokens": N}
//   timed_trace        a line each: {"timestamp": MS, "input_length", "output_length", "hash_ids"}
//                      (Mooncake's), or what `tandem simulate --requests` reads
//
// Refuses a file by line.
Result<Dataset> make_dataset(const DatasetOptions& options, std::int64_t count,
                             const Tokenizer* tokenizer);

// The same from a file's text.
Result<Dataset> parse_dataset(const DatasetOptions& options, std::string_view text,
                              std::int64_t count, const Tokenizer* tokenizer);

}  // namespace tandem
