// Converts settings to the options of the parts. Error messages name the setting.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "tools/bench/serve/load_target.h"
#include "tools/bench/serve/plan/datasets.h"
#include "tools/bench/serve/plan/prompts.h"
#include "tools/bench/serve/plan/request_body.h"
#include "tools/bench/serve/serve_bench_settings.h"

namespace tandem {

// Uses the key in OPENAI_API_KEY and the headers among the settings.
Result<LoadTarget> target_from(const ServeBenchSettings& s);
// Returns a folder with a tokenizer, which may be the model's own folder. Empty: there is none.
std::string tokenizer_folder(const ServeBenchSettings& s);
// `dir`: the result of tokenizer_folder().
Result<PromptMaker> prompt_maker_from(const ServeBenchSettings& s, const std::string& dir);
Result<BodyOptions> body_options_from(const ServeBenchSettings& s);
// `number`: index of the run in a sweep; changes the seed.
DatasetOptions dataset_options_from(const ServeBenchSettings& s, std::int64_t number);

std::vector<std::string> split_commas(const std::string& text);
// Splits "NAME=VALUE". Error messages never contain the value, which may be secret.
Result<std::pair<std::string, std::string>> split_pair(const char* setting,
                                                       const std::string& text);
// Returns the command line without the values of headers.
std::string command_without_secrets(const std::vector<std::string>& args);

}  // namespace tandem
