// tokenizer.json's "decoder": from the vocabulary's spelling of tokens back to text, one token at a
// time.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/tokenizer/regex/regex.h"
#include "engine/tokenizer/utf8.h"

namespace tandem {

// Replace, ByteFallback, Metaspace, Strip, Fuse, ByteLevel and Sequences of them. Immutable,
// thread-safe; the state of one text is a Stream.
//
// Steps come in two parts: those that change tokens one by one, and (after Fuse or ByteLevel, which
// make one piece of everything) Strip, which then sees the text as a whole.
class TokenDecoder {
 public:
  class Stream;

  static Result<TokenDecoder> parse(const nlohmann::json& spec);

  // The bytes that a token adds in the middle of a text, or (`begins_text`) as the first of one,
  // where a decoder may drop a space.
  std::string bytes_of(std::string_view token, bool begins_text) const;

 private:
  enum class Kind { replace, byte_fallback, metaspace, strip };
  struct Step {
    Kind kind;
    std::vector<Regex> pattern;       // one, for replace
    std::string text;                 // replacement; metaspace's mark; strip's character
    std::size_t start = 0, stop = 0;  // strip: at most so many at either end
    bool drop_first = false;          // metaspace: no spaces in the first token
  };
  Status parse_into(const nlohmann::json& spec, const std::string& path, int depth);
  Result<Step> parse_step(const class Fields& fields, const std::string& type) const;
  std::string through_token_steps(std::string_view token, bool begins_text) const;

  std::vector<Step> token_steps_;
  std::vector<Step> text_steps_;  // strips
  bool byte_level_ = false;
  bool fused_ = false;
  bool join_with_space_ = false;  // no decoder at all
};

// When a run of byte-fallback tokens becomes text.
enum class ByteRuns {
  whole,       // at its end, as Hugging Face does: all of it if it is UTF-8, else U+FFFD per byte
  characters,  // each character when its last byte is there; U+FFFD per byte that is in none
};

// Decodes one text. push() appends to `out` what is certain by now, whole characters only; finish()
// the rest, after which the text may go on: only its unfinished character is lost. Amortised
// constant time per byte. One thread at a time; `decoder` must outlive it.
class TokenDecoder::Stream {
 public:
  Stream(const TokenDecoder& decoder, ByteRuns byte_runs);
  void push(std::string_view token, std::string& out);
  void finish(std::string& out);
  // False: the next token may still lose a space, because the text has not begun.
  bool begun() const;

 private:
  struct StepState {
    std::size_t tokens = 0;        // metaspace: how many came before
    std::string run;               // byte_fallback: bytes of the run that are no text yet
    utf8::LossyDecoder validator;  // byte_fallback: has seen the run, if characters come out of it
    std::size_t left = 0;          // strip: how many may still go at the start
    std::size_t held = 0;          // strip: its characters at the end, which may go
  };
  void through_tokens(std::size_t index, std::string_view token, std::string& out);
  void through_text(std::size_t index, std::string_view text, std::string& out);
  void byte_fallback(std::size_t index, std::string_view token, std::string& out);
  void end_character(std::size_t index, std::string& out);
  void end_byte_run(std::size_t index, std::string& out);
  void replace_bytes(std::size_t index, std::size_t count, std::string& out);
  void strip_text(std::size_t index, std::string_view text, std::string& out);

  const TokenDecoder* decoder_;
  ByteRuns byte_runs_;
  std::vector<StepState> token_states_;
  std::vector<StepState> text_states_;
  utf8::LossyDecoder bytes_;
  bool first_ = true;
};

}  // namespace tandem
