// Input: the first byte selects the dialect; the rest is a server's stream.
#include "base/check.h"
#include "tests/fuzz/targets.h"
#include "tools/bench/serve/answer_reader.h"

namespace tandem::fuzz {
namespace {

AnswerTimes read_in_pieces(Dialect dialect, std::string_view text, std::size_t piece) {
  AnswerReader reader(dialect, true);
  for (; text.size() > piece; text.remove_prefix(piece)) reader.take(text.substr(0, piece), {});
  reader.take(text, {});
  return reader.take_answer();
}

}  // namespace

void fuzz_answer(Bytes bytes) {
  if (bytes.empty()) return;
  const Dialect dialect =
      (std::to_integer<unsigned>(bytes[0]) & 1) != 0 ? Dialect::chat : Dialect::completions;
  const std::string_view text = text_of(bytes.subspan(1));
  const AnswerTimes whole = read_in_pieces(dialect, text, text.size() + 1);
  TANDEM_CHECK(whole.gaps_ms.size() + (whole.events > 0 ? 1 : 0) ==
               static_cast<std::size_t>(whole.events));
  for (const std::size_t piece : {std::size_t{1}, std::size_t{5}}) {
    const AnswerTimes cut = read_in_pieces(dialect, text, piece);
    TANDEM_CHECK(cut.events == whole.events && cut.text == whole.text);
    TANDEM_CHECK(cut.finished == whole.finished && cut.mistake == whole.mistake);
    TANDEM_CHECK(cut.prompt_tokens == whole.prompt_tokens);
    TANDEM_CHECK(cut.output_tokens == whole.output_tokens);
    TANDEM_CHECK(cut.adapter_tier == whole.adapter_tier);
  }
  (void)error_text(text);
}

}  // namespace tandem::fuzz
