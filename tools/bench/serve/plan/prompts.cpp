#include "tools/bench/serve/plan/prompts.h"

#include <array>
#include <string_view>
#include <utility>

#include "base/check.h"

namespace tandem {
namespace {

constexpr std::array<std::string_view, 64> kWords = {
    " time",       " year",   " people",  " way",     " day",     " man",      " thing",
    " woman",      " life",   " child",   " world",   " school",  " state",    " family",
    " student",    " group",  " country", " problem", " hand",    " part",     " place",
    " case",       " week",   " company", " system",  " program", " question", " work",
    " government", " number", " night",   " point",   " home",    " water",    " room",
    " mother",     " area",   " money",   " story",   " fact",    " month",    " lot",
    " right",      " study",  " book",    " eye",     " job",     " word",     " business",
    " issue",      " side",   " kind",    " head",    " house",   " service",  " friend",
    " father",     " power",  " hour",    " game",    " line",    " end",      " member",
    " law"};

}  // namespace

PromptMaker::PromptMaker(std::unique_ptr<Tokenizer> tokenizer) : tokenizer_(std::move(tokenizer)) {
  const auto count = static_cast<TokenId>(tokenizer_->vocab_size());
  for (TokenId id = 0; id < count; ++id) {
    if (!tokenizer_->is_special(id) && !tokenizer_->token_bytes(id).empty()) plain_.push_back(id);
  }
  TANDEM_CHECK(!plain_.empty(), "a tokenizer of {} tokens, all of them special", count);
}

std::vector<TokenId> PromptMaker::ids_of(const LoadPrompt& prompt) const {
  std::vector<TokenId> ids = prompt.ids;
  for (const PromptPiece& piece : prompt.pieces) {
    std::mt19937_64 random(piece.seed);
    for (std::int32_t i = 0; i < piece.tokens; ++i) {
      const std::uint64_t drawn = random();
      if (tokenizer_ != nullptr) {
        ids.push_back(plain_[drawn % plain_.size()]);
      } else {
        const auto span = static_cast<std::uint64_t>(vocabulary_ - kFirstPlainId);
        ids.push_back(kFirstPlainId + static_cast<TokenId>(drawn % span));
      }
    }
  }
  return ids;
}

std::string PromptMaker::text_of(const LoadPrompt& prompt) const {
  if (prompt.pieces.empty() && prompt.ids.empty()) return prompt.text;
  if (tokenizer_ != nullptr) return tokenizer_->decode(ids_of(prompt), true);
  std::string text;
  for (const TokenId id : ids_of(prompt)) {
    text += kWords[static_cast<std::size_t>(id) % kWords.size()];
  }
  return text;
}

}  // namespace tandem
