// The parsers behind tool_parser.h, and their common base: it finds markers in the text and parses
// or holds back one call at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "engine/server/tool_calls/call_object.h"
#include "engine/server/tool_calls/marker_matcher.h"
#include "engine/server/tool_calls/parsed_text.h"
#include "engine/server/tool_calls/tool_parser.h"

namespace tandem {

class TextParser : public ToolParser {
 public:
  explicit TextParser(const ToolParserOptions& options)
      : options_(options), markers_(markers_of(options.format)) {}

  ParsedDelta push(std::string_view text) final;
  ParsedDelta finish() final;
  std::int32_t num_calls() const final { return out_.num_calls(); }

 protected:
  virtual void read(char c) = 0;
  // Called at the end of the text; drops held-back text that is not content.
  virtual void end() {}

  ParsedText& out() { return out_; }
  CallObject& call() { return call_; }
  // Returns the marker that `c` completes, as an index into markers_of(). Otherwise nothing; bytes
  // that certainly belong to no marker go to `text` or, in the overload without it, to the content.
  std::optional<std::size_t> find_marker(char c, std::string& text) {
    return markers_.push(c, text);
  }
  std::optional<std::size_t> find_marker(char c);
  // Returns the text of a marker as content; empty for a hidden marker.
  std::string shown(std::size_t marker) const;
  // Adds white space to the held-back text while there is room.
  bool hold_space(char c);
  // Makes the held-back text content.
  void release();

 private:
  ToolParserOptions options_;
  MarkerMatcher markers_;
  ParsedText out_;
  CallObject call_;
};

class HermesParser final : public TextParser {
 public:
  explicit HermesParser(const ToolParserOptions& options);

 private:
  enum class State { text, before, call };
  void read(char c) override;
  void read_text(char c);

  State state_;
  bool closes_ = false;  // a call's closing tag is still missing
};

class Llama3Parser final : public TextParser {
 public:
  using TextParser::TextParser;

 private:
  enum class State { start, text, before, call, between };
  void read(char c) override;
  void end() override;
  void begin(char c);
  void read_call(char c);
  void read_text(char c);
  void leave();

  State state_ = State::start;
};

// For Mistral's format, and for a bare list.
class MistralParser final : public TextParser {
 public:
  explicit MistralParser(const ToolParserOptions& options);

 private:
  enum class State { text, before, element, call, between, name, id, arguments };
  void read(char c) override;
  void end() override;
  void read_text(char c);
  void read_name(char c);
  void read_word(char c);
  void take_word(char c);
  void read_call(char c);
  void leave();
  void begin();

  State state_;
  bool in_list_ = false;
  std::string name_;
  std::size_t id_bytes_ = 0;
};

}  // namespace tandem
