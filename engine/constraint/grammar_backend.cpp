#include "engine/constraint/grammar_backend.h"

#include <xgrammar/compiler.h>
#include <xgrammar/tokenizer_info.h>

#include <algorithm>
#include <exception>
#include <string>
#include <utility>

#include "engine/constraint/token_filter.h"
#include "engine/constraint/xgrammar_log.h"

namespace tandem {
namespace {

using Kind = TextConstraint::Kind;

xgrammar::TokenizerInfo read_vocabulary(const Tokenizer& tokenizer, std::int32_t vocab_size,
                                        const std::vector<TokenId>& end_tokens,
                                        bool special_as_text) {
  const std::size_t size = std::min(tokenizer.vocab_size(), static_cast<std::size_t>(vocab_size));
  std::vector<std::string> tokens(size);
  for (std::size_t i = 0; i < size; ++i) {
    const auto id = static_cast<TokenId>(i);
    const bool ends = std::find(end_tokens.begin(), end_tokens.end(), id) != end_tokens.end();
    tokens[i] = tokenizer.token_bytes(id);
    if (special_as_text && tokenizer.is_special(id) && !ends) tokens[i] = tokenizer.id_to_token(id);
  }
  return {tokens, xgrammar::VocabType::RAW, vocab_size, end_tokens};
}

xgrammar::CompiledGrammar compile_by_kind(const TextConstraint& constraint,
                                          xgrammar::GrammarCompiler& compiler) {
  switch (constraint.kind) {
    case Kind::json_object:
      return compiler.CompileJSONSchema(R"({"type":"object"})", true, std::nullopt, std::nullopt,
                                        /*strict_mode=*/false);
    case Kind::json_schema:
      return compiler.CompileJSONSchema(constraint.text);
    case Kind::regex:
      return compiler.CompileRegex(constraint.text);
    case Kind::grammar:
      return compiler.CompileGrammar(constraint.text);
    case Kind::structural_tag:
      return compiler.CompileStructuralTag(constraint.text);
    case Kind::none:
      break;
  }
  throw std::invalid_argument("nothing to compile");
}

// One line, of a length that an answer may have.
std::string readable(std::string message) {
  constexpr std::size_t kMost = 400;
  std::replace(message.begin(), message.end(), '\n', ' ');
  while (!message.empty() && message.back() == ' ') message.pop_back();
  if (message.size() <= kMost) return message;
  std::size_t end = kMost;
  while (end > 0 && (static_cast<unsigned char>(message[end]) & 0xC0U) == 0x80U) --end;
  return message.substr(0, end) + " ...";
}

}  // namespace

// Of special tokens a text holds nothing, so that no constraint of the text allows them. A
// structural tag may be about them: there they stand for what they are called.
struct GrammarBackend::Vocabularies {
  xgrammar::TokenizerInfo text;
  xgrammar::TokenizerInfo with_special;
};

GrammarBackend::GrammarBackend(const Tokenizer& tokenizer, std::int32_t vocab_size,
                               std::vector<TokenId> end_tokens)
    : tokenizer_(&tokenizer), vocab_size_(vocab_size), end_tokens_(std::move(end_tokens)) {}

GrammarBackend::~GrammarBackend() = default;

const GrammarBackend::Vocabularies& GrammarBackend::vocabularies() {
  std::call_once(read_, [this] {
    vocabularies_ = std::make_unique<const Vocabularies>(
        Vocabularies{read_vocabulary(*tokenizer_, vocab_size_, end_tokens_, false),
                     read_vocabulary(*tokenizer_, vocab_size_, end_tokens_, true)});
  });
  return *vocabularies_;
}

Result<std::shared_ptr<const CompiledConstraint>> GrammarBackend::compile(
    const TextConstraint& constraint) {
  constexpr int kThreads = 1;  // its own: cores belong to the workers and the engine
  XgrammarWarnings warnings;
  std::shared_ptr<const CompiledConstraint> compiled;
  try {
    const Vocabularies& all = vocabularies();
    xgrammar::GrammarCompiler compiler(
        constraint.kind == Kind::structural_tag ? all.with_special : all.text, kThreads,
        /*cache_enabled=*/false);
    compiled = std::make_shared<const CompiledConstraint>(compile_by_kind(constraint, compiler));
  } catch (const std::bad_alloc&) {
    return error(StatusCode::resource_exhausted, "there is no memory for it now");
  } catch (const std::exception& failure) {
    return invalid("{}", readable(failure.what()));
  }
  if (!warnings.messages().empty()) return invalid("{}", readable(warnings.messages().front()));
  TANDEM_TRY(try_out(compiled, vocab_size_));
  return compiled;
}

}  // namespace tandem
