#include "tools/bench/serve/serve_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "tools/bench/common/command_line.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

bool is_plain(const std::string& text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) >= ' '; });
}

}  // namespace

std::vector<std::string> split_commas(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    if (end > begin) parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

Result<std::pair<std::string, std::string>> split_pair(const char* setting,
                                                       const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == 0 || equals == std::string::npos) {
    return invalid("{}: '{}' is not NAME=VALUE", setting, text.substr(0, equals));
  }
  return std::pair(text.substr(0, equals), text.substr(equals + 1));
}

Result<LoadTarget> target_from(const ServeBenchSettings& s) {
  TANDEM_ASSIGN(
      LoadTarget target,
      parse_base_url(s.base_url.empty() ? fmt::format("{}:{}", s.host, s.port) : s.base_url));
  if (const char* key = std::getenv("OPENAI_API_KEY"); key != nullptr && *key != '\0') {
    if (!is_plain(key)) return invalid("OPENAI_API_KEY: there is a control character in it");
    target.headers.emplace_back("Authorization", fmt::format("Bearer {}", key));
  }
  for (const std::string& text : s.headers) {
    TANDEM_ASSIGN(auto header, split_pair("header", text));
    if (!is_plain(text))
      return invalid("header: there is a control character in '{}'", header.first);
    target.headers.push_back(std::move(header));
  }
  return target;
}

std::string tokenizer_folder(const ServeBenchSettings& s) {
  if (!s.tokenizer.empty()) return s.tokenizer;
  std::error_code ignored;
  return fs::exists(fs::path(s.model) / "tokenizer.json", ignored) ? s.model : std::string();
}

Result<PromptMaker> prompt_maker_from(const ServeBenchSettings& s, const std::string& dir) {
  if (!dir.empty()) {
    auto tokenizer = Tokenizer::load(dir);
    if (!tokenizer) return tokenizer.status().with_context("tokenizer");
    return PromptMaker(std::move(*tokenizer));
  }
  if (s.vocab_size != 0 && s.vocab_size <= PromptMaker::kFirstPlainId) {
    return invalid("vocab_size: ids below {} are left to special tokens; give more",
                   PromptMaker::kFirstPlainId);
  }
  return PromptMaker(s.vocab_size == 0 ? PromptMaker::kDefaultVocabulary : s.vocab_size);
}

Result<BodyOptions> body_options_from(const ServeBenchSettings& s) {
  BodyOptions body;
  body.dialect = s.backend.ends_with("-chat") ? Dialect::chat : Dialect::completions;
  if (body.dialect == Dialect::chat && s.prompts_as == "ids") {
    return invalid("prompts_as: a chat has texts; leave ids to --backend openai");
  }
  body.as_text = s.prompts_as == "text";
  body.ignore_eos = s.ignore_eos;
  body.sampling["temperature"] = s.temperature;
  if (s.top_p > 0) body.sampling["top_p"] = s.top_p;
  TANDEM_ASSIGN(body.extra, parse_extra_body(s.extra_body));
  return body;
}

DatasetOptions dataset_options_from(const ServeBenchSettings& s, std::int64_t number) {
  DatasetOptions options = s.dataset;
  if (options.name == "prefix_repetition") options.prefix_len = s.prefix_repetition_prefix_len;
  options.seed = s.plan.seed + static_cast<std::uint64_t>(number);
  return options;
}

std::string command_without_secrets(const std::vector<std::string>& args) {
  std::vector<std::string> shown;
  bool in_headers = false;
  for (const std::string& arg : args) {
    if (arg.starts_with("--")) in_headers = arg.starts_with("--header");
    const std::size_t name_at = arg.starts_with("--header=") ? arg.find('=') + 1 : 0;
    const std::size_t equals = arg.find('=', name_at);
    const bool hides = in_headers && (name_at > 0 || !arg.starts_with("--"));
    shown.push_back(hides ? arg.substr(0, equals) + "=..." : arg);
  }
  return bench_command_line("serve", shown);
}

}  // namespace tandem
