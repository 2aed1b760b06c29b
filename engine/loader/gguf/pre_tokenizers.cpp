#include "engine/loader/gguf/pre_tokenizers.h"

#include <algorithm>

#include "base/text/shown_text.h"

namespace tandem {
namespace {

// The patterns are those of the models' tokenizer.json.
constexpr std::string_view kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kDigit = R"(\p{N})";
// OpenAI's cl100k, with numbers of up to three digits.
constexpr std::string_view kThreeDigits =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kOneDigit =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// OpenAI's o200k, which splits words at changes of case.
constexpr std::string_view kCased =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kTekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr PreTokenizerRow llama3(std::string_view name) {
  return {name, {kThreeDigits}, true, true, false};
}
constexpr PreTokenizerRow split_by(std::string_view name, std::string_view pattern) {
  return {name, {pattern}};
}
constexpr PreTokenizerRow split_digits(std::string_view name) {
  return {name, {kDigit, kGpt2}};
}
constexpr PreTokenizerRow qwen2(std::string_view name) {
  return {name, {kOneDigit}, false, false, true};
}

constexpr std::array kRows = {
    llama3("llama-bpe"),
    llama3("llama3"),
    llama3("llama-v3"),
    split_by("dbrx", kThreeDigits),
    split_by("smaug-bpe", kThreeDigits),
    split_by("glm4", kThreeDigits),
    split_by("chatglm-bpe", kThreeDigits),
    qwen2("qwen2"),
    qwen2("deepseek-r1-qwen"),
    split_by("gpt-2", kGpt2),
    split_by("olmo", kGpt2),
    split_digits("refact"),
    split_digits("starcoder"),
    split_digits("smollm"),
    split_by("gpt-4o", kCased),
    PreTokenizerRow{"tekken", {kTekken}, true, true, false},
};

}  // namespace

Result<PreTokenizerRow> find_pre_tokenizer(std::string_view name) {
  const auto found = std::ranges::find(kRows, name, &PreTokenizerRow::name);
  if (found != kRows.end()) return *found;
  std::string names;
  for (const PreTokenizerRow& row : kRows) {
    if (!names.empty()) names += ", ";
    names += row.name;
  }
  return invalid("'tokenizer.ggml.pre' is '{}', whose pattern is unknown; known are {}",
                 shown_text(name), names);
}

}  // namespace tandem
