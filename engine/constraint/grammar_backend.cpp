#include "engine/constraint/grammar_backend.h"

#include <xgrammar/compiler.h>
#include <xgrammar/tokenizer_info.h>

#include <algorithm>
#include <exception>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "engine/constraint/token_filter.h"
#include "engine/constraint/xgrammar_log.h"
#include "engine/service/engine_defaults.h"

namespace tandem {
namespace {

using Kind = TextConstraint::Kind;

bool is_among(const std::vector<TokenId>& tokens, TokenId token) {
  return std::find(tokens.begin(), tokens.end(), token) != tokens.end();
}

xgrammar::CompiledGrammar compile_json(const std::string& schema, bool strict,
                                       xgrammar::GrammarCompiler& compiler) {
  return compiler.CompileJSONSchema(schema, /*any_whitespace=*/true, /*indent=*/std::nullopt,
                                    /*separators=*/std::nullopt, strict,
                                    engine_defaults::kMaxJsonWhitespace);
}

xgrammar::CompiledGrammar compile_by_kind(const TextConstraint& constraint,
                                          xgrammar::GrammarCompiler& compiler) {
  switch (constraint.kind) {
    case Kind::json_object:
      return compile_json(R"({"type":"object"})", /*strict=*/false, compiler);
    case Kind::json_schema:
      return compile_json(constraint.text, /*strict=*/true, compiler);
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

// Of special tokens a text holds nothing, so that no constraint of the text allows them; but for
// those that a structural tag names: there they stand for what they are called.
struct GrammarBackend::Vocabularies {
  Vocabularies(const Tokenizer& tokenizer, std::int32_t size,
               const std::vector<TokenId>& end_tokens)
      : vocab_size(size), ends(end_tokens) {
    const std::size_t known = std::min(tokenizer.vocab_size(), static_cast<std::size_t>(size));
    for (std::size_t i = 0; i < known; ++i) {
      const auto id = static_cast<TokenId>(i);
      texts.push_back(tokenizer.token_bytes(id));
      if (!tokenizer.is_special(id) || is_among(ends, id)) continue;
      if (const std::string_view name = tokenizer.id_to_token(id); !name.empty()) {
        special.emplace_back(id, name);
      }
    }
  }

  xgrammar::TokenizerInfo of(const TextConstraint& constraint) {
    constexpr std::size_t kMost = 8;  // servers have one or two
    std::vector<TokenId> named;
    if (constraint.kind == Kind::structural_tag) {
      for (const auto& [id, name] : special) {
        if (constraint.text.find(name) != std::string::npos) named.push_back(id);
      }
    }
    if (const auto at = made.find(named); at != made.end()) return at->second;
    std::vector<std::string> with_named = texts;
    for (const auto& [id, name] : special) {
      if (is_among(named, id)) with_named[static_cast<std::size_t>(id)] = name;
    }
    if (made.size() >= kMost) made.clear();
    return made
        .emplace(named,
                 xgrammar::TokenizerInfo(with_named, xgrammar::VocabType::RAW, vocab_size, ends))
        .first->second;
  }

  const std::int32_t vocab_size;
  const std::vector<TokenId> ends;
  std::vector<std::string> texts;                                // by id
  std::vector<std::pair<TokenId, std::string>> special;          // but for those that end
  std::map<std::vector<TokenId>, xgrammar::TokenizerInfo> made;  // by the special tokens in them
};

GrammarBackend::GrammarBackend(const Tokenizer& tokenizer, std::int32_t vocab_size,
                               std::vector<TokenId> end_tokens)
    : tokenizer_(&tokenizer), vocab_size_(vocab_size), end_tokens_(std::move(end_tokens)) {}

GrammarBackend::~GrammarBackend() = default;

Result<std::shared_ptr<const CompiledConstraint>> GrammarBackend::compile(
    const TextConstraint& constraint) {
  constexpr int kThreads = 1;  // its own: cores belong to the workers and the engine
  XgrammarWarnings warnings;
  std::shared_ptr<const CompiledConstraint> compiled;
  try {
    std::optional<xgrammar::TokenizerInfo> vocabulary;  // a handle
    {
      const std::lock_guard lock(mutex_);
      if (vocabularies_ == nullptr) {
        vocabularies_ = std::make_unique<Vocabularies>(*tokenizer_, vocab_size_, end_tokens_);
      }
      vocabulary = vocabularies_->of(constraint);
    }
    xgrammar::GrammarCompiler compiler(*vocabulary, kThreads, /*cache_enabled=*/false);
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
