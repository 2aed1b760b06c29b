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

#include "base/log/log.h"
#include "engine/constraint/byte_stream.h"
#include "engine/constraint/grammar_codec.h"
#include "engine/constraint/schema/constraint_rewrite.h"
#include "engine/constraint/token_filter.h"
#include "engine/constraint/xgrammar_log.h"

namespace tandem {
namespace {

using Kind = TextConstraint::Kind;

bool is_among(const std::vector<TokenId>& tokens, TokenId token) {
  return std::find(tokens.begin(), tokens.end(), token) != tokens.end();
}

xgrammar::CompiledGrammar compile_by_kind(const TextConstraint& constraint,
                                          xgrammar::GrammarCompiler& compiler) {
  switch (constraint.kind) {
    case Kind::grammar:
      return compiler.CompileGrammar(constraint.text);
    case Kind::structural_tag:
      return compiler.CompileStructuralTag(constraint.text);
    default:  // rewrite_constraint() turns all other kinds into one of these
      break;
  }
  throw std::invalid_argument("nothing to compile");
}

// Reduces a message to one line of bounded length, for a response.
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

// Special tokens have no text, so constraints on the text never allow them. Those that a structural
// tag names are an exception: there they have their names as text.
GrammarVocabulary GrammarVocabulary::of(const Tokenizer& tokenizer, std::int32_t vocab_size,
                                        std::vector<TokenId> end_tokens) {
  GrammarVocabulary vocabulary;
  vocabulary.vocab_size = vocab_size;
  vocabulary.ends = std::move(end_tokens);
  const std::size_t known = std::min(tokenizer.vocab_size(), static_cast<std::size_t>(vocab_size));
  for (std::size_t i = 0; i < known; ++i) {
    const auto id = static_cast<TokenId>(i);
    vocabulary.texts.push_back(tokenizer.token_bytes(id));
    if (!tokenizer.is_special(id) || is_among(vocabulary.ends, id)) continue;
    if (const std::string_view name = tokenizer.id_to_token(id); !name.empty()) {
      vocabulary.special.emplace_back(id, name);
    }
  }
  return vocabulary;
}

std::string GrammarVocabulary::to_bytes() const {
  ByteWriter out;
  out.plain(vocab_size);
  out.plain_list(ends);
  out.plain(static_cast<std::uint64_t>(texts.size()));
  for (const std::string& each : texts) out.text(each);
  out.plain(static_cast<std::uint64_t>(special.size()));
  for (const auto& [id, name] : special) {
    out.plain(id);
    out.text(name);
  }
  return out.take();
}

Result<GrammarVocabulary> GrammarVocabulary::from_bytes(std::string_view bytes) {
  ByteReader in(bytes);
  GrammarVocabulary vocabulary;
  vocabulary.vocab_size = in.plain<std::int32_t>();
  vocabulary.ends = in.plain_list<TokenId>();
  vocabulary.texts.resize(in.count(sizeof(std::uint64_t)));
  for (std::string& each : vocabulary.texts) each = in.text();
  vocabulary.special.resize(in.count(sizeof(TokenId) + sizeof(std::uint64_t)));
  for (auto& [id, name] : vocabulary.special) {
    id = in.plain<TokenId>();
    name = in.text();
  }
  const auto is_known = [&](const auto& each) {
    return each.first >= 0 && static_cast<std::size_t>(each.first) < vocabulary.texts.size();
  };
  if (!in.is_at_end() || vocabulary.vocab_size < 0 ||
      !std::all_of(vocabulary.special.begin(), vocabulary.special.end(), is_known)) {
    return invalid("these {} bytes are no vocabulary", bytes.size());
  }
  return vocabulary;
}

class GrammarBackend::Vocabularies {
 public:
  explicit Vocabularies(GrammarVocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {}

  const GrammarVocabulary& plain() const { return vocabulary_; }
  xgrammar::TokenizerInfo of(const TextConstraint& constraint) {
    constexpr std::size_t kMost = 8;  // the number of vocabularies kept; servers need one or two
    std::vector<TokenId> named;
    if (constraint.kind == Kind::structural_tag) {
      for (const auto& [id, name] : vocabulary_.special) {
        if (constraint.text.find(name) != std::string::npos) named.push_back(id);
      }
    }
    if (const auto at = made_.find(named); at != made_.end()) return at->second;
    std::vector<std::string> with_named = vocabulary_.texts;
    for (const auto& [id, name] : vocabulary_.special) {
      if (is_among(named, id)) with_named[static_cast<std::size_t>(id)] = name;
    }
    if (made_.size() >= kMost) made_.clear();
    return made_
        .emplace(named, xgrammar::TokenizerInfo(with_named, xgrammar::VocabType::RAW,
                                                vocabulary_.vocab_size, vocabulary_.ends))
        .first->second;
  }

 private:
  const GrammarVocabulary vocabulary_;
  std::map<std::vector<TokenId>, xgrammar::TokenizerInfo> made_;  // by their special tokens
};

GrammarBackend::GrammarBackend(const Tokenizer& tokenizer, std::int32_t vocab_size,
                               std::vector<TokenId> end_tokens)
    : tokenizer_(&tokenizer), vocab_size_(vocab_size), end_tokens_(std::move(end_tokens)) {}

GrammarBackend::GrammarBackend(GrammarVocabulary vocabulary)
    : vocab_size_(vocabulary.vocab_size),
      vocabularies_(std::make_unique<Vocabularies>(std::move(vocabulary))) {}

GrammarBackend::~GrammarBackend() = default;

GrammarBackend::Vocabularies& GrammarBackend::vocabularies() {
  if (vocabularies_ == nullptr) {
    vocabularies_ = std::make_unique<Vocabularies>(
        GrammarVocabulary::of(*tokenizer_, vocab_size_, end_tokens_));
  }
  return *vocabularies_;
}

Result<std::shared_ptr<const CompiledConstraint>> GrammarBackend::compile(
    const TextConstraint& constraint) {
  constexpr int kThreads = 1;  // other cores belong to the workers and the engine
  XgrammarWarnings warnings;
  std::shared_ptr<const CompiledConstraint> compiled;
  try {
    TANDEM_ASSIGN(const TextConstraint rewritten, rewrite_constraint(constraint));
    std::optional<xgrammar::TokenizerInfo> vocabulary;  // a handle, cheap to copy
    {
      const std::lock_guard lock(mutex_);
      vocabulary = vocabularies().of(constraint);
    }
    xgrammar::GrammarCompiler compiler(*vocabulary, kThreads, /*cache_enabled=*/false);
    compiled = std::make_shared<const CompiledConstraint>(compile_by_kind(rewritten, compiler));
  } catch (const std::bad_alloc&) {
    return error(StatusCode::resource_exhausted, "there is no memory for it now");
  } catch (const std::exception& failure) {
    return invalid("{}", readable(failure.what()));
  }
  if (!warnings.messages().empty()) return invalid("{}", readable(warnings.messages().front()));
  TANDEM_TRY(try_out(compiled, vocab_size_));
  return compiled;
}

Result<std::shared_ptr<const CompiledConstraint>> GrammarBackend::adopt(
    const TextConstraint& constraint, std::string_view encoded) {
  try {
    std::optional<xgrammar::TokenizerInfo> vocabulary;
    {
      const std::lock_guard lock(mutex_);
      vocabulary = vocabularies().of(constraint);
    }
    TANDEM_ASSIGN(xgrammar::CompiledGrammar grammar, decode_grammar(encoded, *vocabulary));
    return std::make_shared<const CompiledConstraint>(std::move(grammar));
  } catch (const std::bad_alloc&) {
    return error(StatusCode::resource_exhausted, "there is no memory for it now");
  } catch (const std::exception& failure) {
    return error(StatusCode::internal, "{}", readable(failure.what()));
  }
}

void GrammarBackend::prepare() {
  const std::lock_guard lock(mutex_);
  try {
    (void)vocabularies().of({});
  } catch (const std::exception& failure) {
    log::debug("preparing the vocabulary for constraints failed: {}", failure.what());
  }
}

std::string GrammarBackend::vocabulary_bytes() {
  const std::lock_guard lock(mutex_);
  return vocabularies().plain().to_bytes();
}

}  // namespace tandem
