// Input: a tokenizer.json, a zero byte, a text.
#include "engine/tokenizer/tokenizer.h"

#include "base/check.h"
#include "base/text/utf8.h"
#include "tests/fuzz/targets.h"

namespace tandem::fuzz {
namespace {

void use(const Tokenizer& tokenizer, std::string_view text) {
  const auto ids = tokenizer.encode(text, true);
  if (!ids) return;
  for (const TokenId id : *ids) {
    TANDEM_CHECK(id >= 0 && static_cast<std::size_t>(id) < tokenizer.vocab_size(), "{} of {}", id,
                 tokenizer.vocab_size());
    (void)tokenizer.token_bytes(id);
    (void)tokenizer.id_to_token(id);
  }
  for (const bool skip_special : {false, true}) {
    StreamDecoder stream(tokenizer, skip_special);
    std::string streamed;
    for (const TokenId id : *ids) streamed += stream.push(id);
    streamed += stream.flush();
    const std::string whole = tokenizer.decode(*ids, skip_special);
    // In a run of byte tokens that is not UTF-8, a stream has already returned the whole
    // characters.
    if (whole.find(utf8::kReplacement) != std::string::npos) continue;
    TANDEM_CHECK(streamed == whole, "streamed '{}', whole '{}'", streamed, whole);
  }
}

}  // namespace

void fuzz_tokenizer(Bytes bytes) {
  const auto [json, text] = split_text(text_of(bytes));
  const auto tokenizer = Tokenizer::parse(json);
  if (!tokenizer) return;
  use(**tokenizer, text);
  use(**tokenizer, " Hello, w\xC3\xB6rld! 123  it's\n\n<s>\xF0\x9F\x98\x80\t");
  const TokenId strange[] = {-1, 0, 1 << 30, 3};
  (void)(*tokenizer)->decode(strange, false);
}

}  // namespace tandem::fuzz
