#include "tools/bench/serve/plan/datasets.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>
#include <utility>

#include "base/file/file.h"
#include "scheduler/cluster/policies/policy.h"
#include "scheduler/cluster/simulator/recorded_requests.h"

namespace tandem {
namespace {

using nlohmann::json;

constexpr std::uint64_t kMaxDatasetBytes = std::uint64_t{4} << 30;
constexpr std::int32_t kMaxTokens = 10'000'000;
constexpr std::int64_t kRandomOutput = 128;
constexpr std::int64_t kCustomOutput = 256;
// Limits for conversations: shorter ones are no questions, and longer ones did not fit the models
// of the published figures.
constexpr std::int32_t kFewestShared = 4;
constexpr std::int32_t kMostSharedPrompt = 1024;
constexpr std::int32_t kMostShared = 2048;
constexpr double kBytesPerToken = 4;  // of English text, for use without a tokenizer

std::int32_t count_tokens(const std::string& text, const Tokenizer* tokenizer) {
  if (tokenizer != nullptr) {
    if (const auto ids = tokenizer->encode(text, false)) {
      return static_cast<std::int32_t>(ids->size());
    }
  }
  return static_cast<std::int32_t>(std::ceil(static_cast<double>(text.size()) / kBytesPerToken));
}

class LengthDraw {
 public:
  LengthDraw(std::int64_t mean, double ratio)
      : draw_(std::max<std::int64_t>(
                  1, std::llround(std::floor(static_cast<double>(mean) * (1 - ratio)))),
              std::max<std::int64_t>(
                  1, std::llround(std::ceil(static_cast<double>(mean) * (1 + ratio))))) {}
  std::int32_t operator()(std::mt19937_64& random) {
    return static_cast<std::int32_t>(draw_(random));
  }

 private:
  std::uniform_int_distribution<std::int64_t> draw_;
};

Dataset random_prompts(const DatasetOptions& options, std::int64_t count) {
  std::mt19937_64 random(mix_hash(options.seed, 11));
  const bool repeats = options.name == "prefix_repetition";
  LengthDraw input(options.input_len, options.range_ratio);
  LengthDraw output(options.output_len > 0 ? options.output_len : kRandomOutput,
                    options.range_ratio);
  std::uniform_int_distribution<std::int64_t> which(0, options.num_prefixes - 1);
  Dataset dataset;
  for (std::int64_t i = 0; i < count; ++i) {
    LoadPrompt prompt;
    if (options.prefix_len > 0) {
      const std::int64_t prefix = repeats ? which(random) : 0;
      prompt.pieces.push_back({mix_hash(options.seed, static_cast<std::uint64_t>(1'000 + prefix)),
                               static_cast<std::int32_t>(options.prefix_len)});
    }
    const std::int32_t tokens = input(random);
    prompt.output_tokens = output(random);
    prompt.pieces.push_back({random(), tokens});
    prompt.prompt_tokens = static_cast<std::int32_t>(options.prefix_len) + tokens;
    dataset.prompts.push_back(std::move(prompt));
  }
  return dataset;
}

// Calls `read` for each line that is not empty, up to `most` times.
Status each_line(std::string_view text, std::int64_t most,
                 const std::function<Status(const json&)>& read) {
  for (std::int64_t number = 1, taken = 0; !text.empty() && taken < most; ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const json parsed = json::parse(line, nullptr, false);
    Status status = parsed.is_object() ? read(parsed) : invalid("it is no JSON object");
    if (!status) return status.with_context(fmt::format("line {}", number));
    ++taken;
  }
  return {};
}

Result<std::int32_t> count_field(const json& line, const char* name, std::int32_t otherwise) {
  const auto found = line.find(name);
  if (found == line.end() && otherwise > 0) return otherwise;
  if (found == line.end() || !found->is_number_integer() || *found < 1 || *found > kMaxTokens) {
    return invalid("{} must be a whole number from 1 to {}", name, kMaxTokens);
  }
  return found->get<std::int32_t>();
}

Status read_ids(const json& list, std::vector<TokenId>& ids) {
  for (const json& id : list) {
    if (!id.is_number_integer() || id < 0 || id > kMaxTokens) {
      return invalid("prompt must be a text or a list of token ids");
    }
    ids.push_back(id.get<TokenId>());
  }
  return {};
}

Result<Dataset> parse_custom(const DatasetOptions& options, std::string_view text,
                             std::int64_t count, const Tokenizer* tokenizer) {
  Dataset dataset;
  TANDEM_TRY(each_line(text, count, [&](const json& line) -> Status {
    const auto asked = line.find("prompt");
    LoadPrompt prompt;
    if (asked != line.end() && asked->is_string()) {
      prompt.text = asked->get<std::string>();
      if (tokenizer != nullptr) prompt.prompt_tokens = count_tokens(prompt.text, tokenizer);
    } else if (asked != line.end() && asked->is_array()) {
      TANDEM_TRY(read_ids(*asked, prompt.ids));
      prompt.prompt_tokens = static_cast<std::int32_t>(prompt.ids.size());
    }
    if (prompt.text.empty() && prompt.ids.empty()) {
      return invalid("prompt must be a text or a list of token ids, and not empty");
    }
    if (options.output_len > 0) {
      prompt.output_tokens = static_cast<std::int32_t>(options.output_len);
    } else {
      TANDEM_ASSIGN(prompt.output_tokens,
                    count_field(line, "output_tokens", std::int32_t{kCustomOutput}));
    }
    dataset.prompts.push_back(std::move(prompt));
    return {};
  }));
  return dataset;
}

// Makes a prompt of a conversation's first two messages; nothing if they are no question and
// answer.
std::optional<LoadPrompt> shared_prompt(const json& entry, const DatasetOptions& options,
                                        const Tokenizer* tokenizer) {
  const auto turns = entry.find("conversations");
  if (turns == entry.end() || !turns->is_array() || turns->size() < 2) return std::nullopt;
  const auto said = [&](std::size_t turn) {
    const json& one = (*turns)[turn];
    const auto value = one.is_object() ? one.find("value") : one.end();
    return one.is_object() && value != one.end() && value->is_string() ? value->get<std::string>()
                                                                       : std::string();
  };
  LoadPrompt prompt;
  prompt.text = said(0);
  prompt.prompt_tokens = count_tokens(prompt.text, tokenizer);
  prompt.output_tokens = options.output_len > 0 ? static_cast<std::int32_t>(options.output_len)
                                                : count_tokens(said(1), tokenizer);
  const bool fits = prompt.prompt_tokens >= kFewestShared &&
                    prompt.output_tokens >= (options.output_len > 0 ? 1 : kFewestShared) &&
                    prompt.prompt_tokens <= kMostSharedPrompt &&
                    prompt.prompt_tokens + prompt.output_tokens <= kMostShared;
  if (!fits) return std::nullopt;
  return prompt;
}

Result<Dataset> parse_sharegpt(const DatasetOptions& options, std::string_view text,
                               std::int64_t count, const Tokenizer* tokenizer) {
  const json parsed = json::parse(text, nullptr, false);
  if (!parsed.is_array()) {
    return invalid("it is no JSON list of conversations, as ShareGPT's file is");
  }
  std::vector<std::size_t> order(parsed.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::mt19937_64 random(mix_hash(options.seed, 12));
  std::shuffle(order.begin(), order.end(), random);
  Dataset dataset;
  for (const std::size_t i : order) {
    if (std::ssize(dataset.prompts) == count) break;
    if (!parsed[i].is_object()) return invalid("entry {} is no JSON object", i + 1);
    if (auto prompt = shared_prompt(parsed[i], options, tokenizer)) {
      dataset.prompts.push_back(std::move(*prompt));
    }
  }
  if (dataset.prompts.empty()) {
    return invalid("no conversation in it has a question and an answer of {} to {} tokens",
                   kFewestShared, kMostSharedPrompt);
  }
  if (tokenizer == nullptr) {
    dataset.note =
        "lengths of conversations are estimated, four bytes a token; --tokenizer DIR "
        "counts them";
  }
  return dataset;
}

Result<Dataset> parse_mooncake(const DatasetOptions& options, std::string_view text,
                               std::int64_t count) {
  Dataset dataset;
  double last_s = 0;
  TANDEM_TRY(each_line(text, count, [&](const json& line) -> Status {
    const auto at = line.find("timestamp");
    const double due_s = at != line.end() && at->is_number() ? at->get<double>() * 1e-3 : -1;
    constexpr double kLatest_s = 1e9;
    if (!(due_s >= last_s) || due_s > kLatest_s) {
      return invalid("timestamp must be milliseconds, not before those of the line above");
    }
    last_s = due_s;
    LoadPrompt prompt;
    TANDEM_ASSIGN(prompt.prompt_tokens, count_field(line, "input_length", 0));
    TANDEM_ASSIGN(prompt.output_tokens, count_field(line, "output_length", 0));
    std::int32_t left = prompt.prompt_tokens;
    if (const auto hashes = line.find("hash_ids"); hashes != line.end() && hashes->is_array()) {
      for (const json& hash : *hashes) {
        if (!hash.is_number_integer()) return invalid("hash_ids must be whole numbers");
        const auto tokens = std::min(left, static_cast<std::int32_t>(options.block_tokens));
        if (tokens == 0) break;
        prompt.pieces.push_back({mix_hash(options.seed, hash.get<std::uint64_t>()), tokens});
        left -= tokens;
      }
    }
    if (left > 0) {
      prompt.pieces.push_back({mix_hash(options.seed + 1, dataset.prompts.size()), left});
    }
    const auto adapter = line.find("adapter");
    dataset.adapters.push_back(adapter != line.end() && adapter->is_string()
                                   ? adapter->get<std::string>()
                                   : std::string());
    dataset.prompts.push_back(std::move(prompt));
    dataset.due_s.push_back(due_s);
    return {};
  }));
  return dataset;
}

Result<Dataset> parse_recorded(const DatasetOptions& options, std::string_view text,
                               std::int64_t count) {
  std::vector<std::string> names;
  TANDEM_ASSIGN(const std::vector<SimRequest> requests, parse_recorded_requests(text, &names));
  Dataset dataset;
  for (const SimRequest& request : requests) {
    if (std::ssize(dataset.prompts) == count) break;
    LoadPrompt prompt;
    prompt.prompt_tokens = request.prompt_tokens;
    prompt.output_tokens = request.answer_tokens;
    prompt.pieces.push_back(
        {mix_hash(options.seed + 1, dataset.prompts.size()), request.prompt_tokens});
    dataset.prompts.push_back(std::move(prompt));
    dataset.due_s.push_back(request.arrival_s);
    dataset.adapters.push_back(names[static_cast<std::size_t>(request.adapter.value())]);
  }
  return dataset;
}

Result<Dataset> parse_trace(const DatasetOptions& options, std::string_view text,
                            std::int64_t count) {
  const bool is_recorded =
      text.substr(0, text.find('\n')).find("\"arrival_s\"") != std::string_view::npos;
  TANDEM_ASSIGN(Dataset dataset, is_recorded ? parse_recorded(options, text, count)
                                             : parse_mooncake(options, text, count));
  for (double& due_s : dataset.due_s) due_s /= options.trace_speed;
  return dataset;
}

}  // namespace

std::vector<std::string> dataset_names() {
  return {"random", "sharegpt", "custom", "prefix_repetition", "timed_trace"};
}

Result<Dataset> parse_dataset(const DatasetOptions& options, std::string_view text,
                              std::int64_t count, const Tokenizer* tokenizer) {
  Result<Dataset> dataset = options.name == "custom" ? parse_custom(options, text, count, tokenizer)
                            : options.name == "sharegpt"
                                ? parse_sharegpt(options, text, count, tokenizer)
                                : parse_trace(options, text, count);
  if (!dataset) return dataset;
  if (dataset->prompts.empty()) return invalid("there is no prompt in it");
  const std::size_t had = dataset->prompts.size();
  for (std::size_t i = 0; dataset->due_s.empty() && std::ssize(dataset->prompts) < count; ++i) {
    dataset->prompts.push_back(dataset->prompts[i % had]);
  }
  return dataset;
}

Result<Dataset> make_dataset(const DatasetOptions& options, std::int64_t count,
                             const Tokenizer* tokenizer) {
  if (options.name == "random" || options.name == "prefix_repetition") {
    if (!options.path.empty()) {
      return invalid(
          "dataset_path: '{}' is made up and reads no file; --dataset-name says what is "
          "in it",
          options.name);
    }
    return random_prompts(options, count);
  }
  if (options.path.empty()) {
    return invalid("dataset_path is missing; give --dataset-path FILE with '{}'", options.name);
  }
  TANDEM_ASSIGN(const std::string text, read_text_file(options.path, kMaxDatasetBytes));
  Result<Dataset> dataset = parse_dataset(options, text, count, tokenizer);
  if (!dataset) return dataset.status().with_context(options.path);
  return dataset;
}

}  // namespace tandem
