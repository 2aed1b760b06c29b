#include "engine/tokenizer/tokenizer.h"

#include <algorithm>
#include <utility>

#include "base/file/file.h"
#include "base/limits/bytes_text.h"
#include "engine/tokenizer/tokenizer_impl.h"
#include "engine/tokenizer/utf8.h"

namespace tandem {
namespace {

std::string without(std::string_view text, std::string_view part) {
  std::string out;
  std::size_t from = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, from)) {
    out += text.substr(from, at - from);
    from = at + part.size();
  }
  return out += text.substr(from);
}

constexpr std::size_t kMaxTextBytes = std::size_t{1} << 30;  // positions are 32-bit
constexpr std::uint64_t kMaxFileBytes = std::uint64_t{256} << 20;

}  // namespace

Tokenizer::Tokenizer(std::unique_ptr<const Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::~Tokenizer() = default;

Result<std::unique_ptr<Tokenizer>> Tokenizer::load(const std::filesystem::path& dir) {
  const std::filesystem::path path = dir / "tokenizer.json";
  const Result<std::string> text = read_text_file(path, kMaxFileBytes);
  if (!text && text.status().code() == StatusCode::not_found)
    return error(StatusCode::not_found, "{}; the checkpoint must have this file",
                 text.status().message());
  if (!text) return text.status();
  auto result = parse(*text);
  if (!result) return result.status().with_context(path.string());
  return result;
}

Result<std::unique_ptr<Tokenizer>> Tokenizer::of(const nlohmann::json& tokenizer_json) {
  TANDEM_ASSIGN(std::unique_ptr<const Impl> impl, Impl::of(tokenizer_json));
  return std::unique_ptr<Tokenizer>(new Tokenizer(std::move(impl)));
}

Result<std::unique_ptr<Tokenizer>> Tokenizer::parse(std::string_view tokenizer_json) {
  TANDEM_ASSIGN(std::unique_ptr<const Impl> impl, Impl::parse(tokenizer_json));
  return std::unique_ptr<Tokenizer>(new Tokenizer(std::move(impl)));
}

Result<std::vector<TokenId>> Tokenizer::encode(std::string_view text, bool add_special,
                                               std::string_view breaker) const {
  if (text.size() > kMaxTextBytes)
    return invalid("the text has {}, more than the {} that can be tokenized",
                   size_text(text.size()), size_text(kMaxTextBytes));
  if (!utf8::valid(text)) return invalid("the text is not valid UTF-8");
  std::vector<TokenId> ids;
  const PreTokenizer::Sink sink = [&](std::string_view word) { impl_->bpe.encode(word, ids); };
  for (const AddedTokenMatcher::Segment& outer : impl_->raw_added.split(text)) {
    if (outer.id != AddedTokenMatcher::kText) {
      ids.push_back(outer.id);
      continue;
    }
    std::string_view piece = text.substr(outer.begin, outer.end - outer.begin);
    std::string normalized;
    if (!impl_->normalizer.empty()) {
      TANDEM_ASSIGN(normalized, impl_->normalizer.apply(piece));
      if (normalized.size() > 2 * kMaxTextBytes - 1)
        return invalid("the text grows to {} when normalized", size_text(normalized.size()));
      piece = normalized;
    }
    for (const AddedTokenMatcher::Segment& inner : impl_->normalized_added.split(piece)) {
      if (inner.id != AddedTokenMatcher::kText) {
        ids.push_back(inner.id);
        continue;
      }
      std::string_view words = piece.substr(inner.begin, inner.end - inner.begin);
      std::string whole;  // tokens have been matched, so the breakers can be removed
      if (!breaker.empty() && words.find(breaker) != std::string_view::npos) {
        whole = without(words, breaker);
        words = whole;
      }
      TANDEM_TRY(impl_->pre_tokenizer.run(words, outer.begin == 0 && inner.begin == 0, sink));
    }
  }
  if (add_special) return impl_->post_processor.apply(std::move(ids));
  return ids;
}

Result<std::vector<TokenId>> Tokenizer::encode_pair(std::string_view first,
                                                    std::string_view second) const {
  TANDEM_ASSIGN(const std::vector<TokenId> head, encode(first, false));
  TANDEM_ASSIGN(const std::vector<TokenId> tail, encode(second, false));
  return impl_->post_processor.apply_to_pair(head, tail);
}

std::string Tokenizer::break_special_tokens(std::string_view text, std::string_view breaker) const {
  std::string out;
  for (std::size_t pos = 0; pos < text.size();) {
    const std::size_t begin = pos;
    utf8::next(text, pos);
    out += text.substr(begin, pos - begin);
    if (impl_->raw_added.special_begins(text, begin) ||
        impl_->normalized_added.special_begins(text, begin)) {
      out += breaker;
    }
  }
  return out;
}

std::string Tokenizer::decode(std::span<const TokenId> ids, bool skip_special) const {
  TokenDecoder::Stream stream(impl_->decoder, ByteRuns::whole);
  std::string out;
  for (const TokenId id : ids)
    if (const Impl::Entry* e = impl_->decoded_entry(id, skip_special)) stream.push(e->text, out);
  stream.finish(out);
  return out;
}

std::size_t Tokenizer::vocab_size() const {
  return impl_->tokens.size();
}

std::optional<TokenId> Tokenizer::token_to_id(std::string_view token) const {
  const auto it = impl_->ids.find(std::string(token));
  if (it == impl_->ids.end()) return std::nullopt;
  return it->second;
}

std::string_view Tokenizer::id_to_token(TokenId id) const {
  const Impl::Entry* e = impl_->entry(id);
  return e == nullptr ? std::string_view() : std::string_view(e->text);
}

bool Tokenizer::is_special(TokenId id) const {
  const Impl::Entry* e = impl_->entry(id);
  return e != nullptr && e->special;
}

std::string Tokenizer::token_bytes(TokenId id, bool begins_text) const {
  const Impl::Entry* e = impl_->entry(id);
  if (e == nullptr || e->special) return {};
  return impl_->decoder.bytes_of(e->text, begins_text);
}

struct StreamDecoder::State {
  TokenDecoder::Stream stream;
};

StreamDecoder::StreamDecoder(const Tokenizer& tokenizer, bool skip_special,
                             std::vector<TokenId> kept, std::span<const TokenId> before)
    : tokenizer_(&tokenizer),
      skip_special_(skip_special),
      kept_(std::move(kept)),
      state_(std::make_unique<State>(
          State{TokenDecoder::Stream(tokenizer.impl_->decoder, ByteRuns::characters)})) {
  std::string said;
  for (const TokenId id : before) {
    if (begun()) break;
    said = push(id);
  }
  state_->stream.finish(said);
}

StreamDecoder::~StreamDecoder() = default;
StreamDecoder::StreamDecoder(StreamDecoder&&) noexcept = default;
StreamDecoder& StreamDecoder::operator=(StreamDecoder&&) noexcept = default;

std::string StreamDecoder::push(TokenId id) {
  std::string out;
  const auto* e = tokenizer_->impl_->entry(id);
  if (e != nullptr && !skips(id)) state_->stream.push(e->text, out);
  return out;
}

std::string StreamDecoder::flush() {
  std::string out;
  state_->stream.finish(out);
  state_->stream = TokenDecoder::Stream(tokenizer_->impl_->decoder, ByteRuns::characters);
  return out;
}

bool StreamDecoder::skips(TokenId id) const {
  return skip_special_ && tokenizer_->is_special(id) &&
         std::find(kept_.begin(), kept_.end(), id) == kept_.end();
}

bool StreamDecoder::begun() const {
  return state_->stream.begun();
}

}  // namespace tandem
