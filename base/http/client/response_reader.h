// Parses bytes into a response with Beast's parser, within limits. No sockets: callers feed it.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tandem {

struct CallHead {
  int status = 0;
  std::vector<std::pair<std::string, std::string>> headers;  // lower-case names

  std::string_view header(std::string_view lower_case_name) const;  // the first one; empty: none
};

class ResponseReader {
 public:
  static constexpr std::size_t kMaxHeadBytes = 32U << 10;
  static constexpr int kMaxInterim = 8;  // most 1xx responses before the final one

  enum class State { head, body, complete, refused };

  ResponseReader();
  ~ResponseReader();
  ResponseReader(const ResponseReader&) = delete;
  ResponseReader& operator=(const ResponseReader&) = delete;

  // Appends the body's bytes, unchunked, to `body`. The length of the body is not limited here,
  // because it is passed on.
  State take(std::string_view bytes, std::string& body);
  // The connection has ended: a body without a length is complete, any other is not.
  State end();

  State state() const { return state_; }
  const CallHead& head() const { return head_; }  // valid from State::body on
  // True if the connection may carry another request: it is open, and no bytes are left over.
  bool reusable() const;
  const std::string& refusal() const { return refusal_; }

 private:
  struct Parser;
  void begin();
  void feed(std::string_view& bytes, std::string& body);
  void take_head();

  std::unique_ptr<Parser> parser_;
  State state_ = State::head;
  CallHead head_;
  std::string left_;  // bytes that the parser needs again, with more behind them
  std::string refusal_;
  int interim_ = 0;
  bool surplus_ = false;
};

}  // namespace tandem
