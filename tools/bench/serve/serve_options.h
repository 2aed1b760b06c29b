// From what was typed to the options of the parts. Messages name the setting.
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

// With the key of OPENAI_API_KEY and the headers that were named.
Result<LoadTarget> target_from(const ServeBenchSettings& s);
// A folder with a tokenizer: a model's folder has one, its name has none. Empty: there is none.
std::string tokenizer_folder(const ServeBenchSettings& s);
// `dir`: tokenizer_folder().
Result<PromptMaker> prompt_maker_from(const ServeBenchSettings& s, const std::string& dir);
Result<BodyOptions> body_options_from(const ServeBenchSettings& s);
// `number`: of the run in a sweep; goes to the seed.
DatasetOptions dataset_options_from(const ServeBenchSettings& s, std::int64_t number);

std::vector<std::string> split_commas(const std::string& text);
// "NAME=VALUE". The message never has the value.
Result<std::pair<std::string, std::string>> split_pair(const char* setting,
                                                       const std::string& text);
// The command line, without what headers say.
std::string command_without_secrets(const std::vector<std::string>& args);

}  // namespace tandem
