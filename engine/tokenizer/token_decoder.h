// The "decoder" of tokenizer.json, which converts tokens from their spelling in the vocabulary to
// text, one token at a time.
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

// Supports Replace, ByteFallback, Metaspace, Strip, Fuse, ByteLevel and Sequences of them.
// Immutable, thread-safe; the state of one text is a Stream.
//
// The steps have two parts: those that change single tokens, and (after Fuse or ByteLevel, which
// join everything) Strip, which works on the whole text.
class TokenDecoder {
 public:
  class Stream;

  static Result<TokenDecoder> parse(const nlohmann::json& spec);

  // Returns the bytes that a token adds in the middle of a text, or (`begins_text`) as its first
  // token, at which a decoder may drop a space.
  std::string bytes_of(std::string_view token, bool begins_text) const;

 private:
  enum class Kind { replace, byte_fallback, metaspace, strip };
  struct Step {
    Kind kind;
    std::vector<Regex> pattern;       // set for replace only, then one
    std::string text;                 // replacement; metaspace's mark; strip's character
    std::size_t start = 0, stop = 0;  // strip: the maximal number at either end
    bool drop_first = false;          // metaspace: drops the spaces of the first token
  };
  Status parse_into(const nlohmann::json& spec, const std::string& path, int depth);
  Result<Step> parse_step(const class Fields& fields, const std::string& type) const;
  std::string through_token_steps(std::string_view token, bool begins_text) const;

  std::vector<Step> token_steps_;
  std::vector<Step> text_steps_;  // Strip steps only
  bool byte_level_ = false;
  bool fused_ = false;
  bool join_with_space_ = false;  // there is no decoder
};

// When a run of byte-fallback tokens is converted to text.
enum class ByteRuns {
  whole,       // at its end, as in Hugging Face: as a whole if it is UTF-8, else U+FFFD per byte
  characters,  // each character with its last byte; U+FFFD for each byte outside of characters
};

// Decodes one text. push() appends the text that is certain to `out`, in whole characters only.
// finish() appends the rest; the text may then be continued, and only the unfinished character is
// lost. Amortised constant time per byte. Not thread-safe; `decoder` must outlive it.
class TokenDecoder::Stream {
 public:
  Stream(const TokenDecoder& decoder, ByteRuns byte_runs);
  void push(std::string_view token, std::string& out);
  void finish(std::string& out);
  // False if the text has not begun, so that the next token may still lose a space.
  bool begun() const;

 private:
  struct StepState {
    std::size_t tokens = 0;        // metaspace: number of tokens before
    std::string run;               // byte_fallback: bytes of the run not converted yet
    utf8::LossyDecoder validator;  // byte_fallback: has read the run, with ByteRuns::characters
    std::size_t left = 0;          // strip: number that may still be stripped at the start
    std::size_t held = 0;          // strip: number held at the end, which may be stripped
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
