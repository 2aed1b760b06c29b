#include "engine/adapters/adapter_tokenizers.h"

#include <openssl/evp.h>

#include <algorithm>

namespace tandem {
namespace {

constexpr std::size_t kMaxKnown = 4096;

Result<std::string> sha256(std::string_view text) {
  std::string hash(32, '\0');
  if (EVP_Digest(text.data(), text.size(), reinterpret_cast<unsigned char*>(hash.data()), nullptr,
                 EVP_sha256(), nullptr) == 1) {
    return hash;
  }
  return error(StatusCode::internal, "OpenSSL cannot compute SHA-256");
}

}  // namespace

bool AdapterTokenizers::is_base(const Tokenizer& tokenizer) const {
  if (tokenizer.vocab_size() != base_->vocab_size()) return false;
  for (std::size_t i = 0; i < tokenizer.vocab_size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    if (tokenizer.id_to_token(id) != base_->id_to_token(id) ||
        tokenizer.is_special(id) != base_->is_special(id)) {
      return false;
    }
  }
  return true;
}

Result<std::shared_ptr<const Tokenizer>> AdapterTokenizers::find(std::string_view text) {
  TANDEM_ASSIGN(const std::string hash, sha256(text));
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = known_.find(hash); known != known_.end()) {
      if (known->second.is_base) return std::shared_ptr<const Tokenizer>();
      if (auto tokenizer = known->second.tokenizer.lock()) return tokenizer;
    }
  }
  // Two concurrent calls may both parse the text; both get the first one's result.
  TANDEM_ASSIGN(std::shared_ptr<const Tokenizer> tokenizer, Tokenizer::parse(text));
  if (is_base(*tokenizer)) tokenizer = nullptr;
  const std::lock_guard lock(mutex_);
  if (const auto known = known_.find(hash); known != known_.end()) {
    if (auto first = known->second.tokenizer.lock()) return first;
  }
  std::erase_if(known_, [](const auto& known) {
    return !known.second.is_base && known.second.tokenizer.expired();
  });
  if (known_.size() < kMaxKnown) known_[hash] = {tokenizer, tokenizer == nullptr};
  return tokenizer;
}

Status AdapterTokenizers::check(const Tokenizer* tokenizer, std::int64_t vocab_size) const {
  if (tokenizer == nullptr) return {};
  const auto rows = std::max(static_cast<std::size_t>(vocab_size), base_->vocab_size());
  if (tokenizer->vocab_size() <= rows) return {};
  return invalid("{} of the adapter has tokens up to id {}, and its vocabulary ends at {}",
                 kTokenizerName, tokenizer->vocab_size() - 1, vocab_size - 1);
}

}  // namespace tandem
