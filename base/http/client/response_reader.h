// From bytes to a response: Beast's parser over what arrives, with bounds. No sockets: it is fed.
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

  std::string_view header(std::string_view lower_case_name) const;  // the first; empty: none
};

class ResponseReader {
 public:
  static constexpr std::size_t kMaxHeadBytes = 32U << 10;
  static constexpr int kMaxInterim = 8;  // responses 1xx before the one that counts

  enum class State { head, body, complete, refused };

  ResponseReader();
  ~ResponseReader();
  ResponseReader(const ResponseReader&) = delete;
  ResponseReader& operator=(const ResponseReader&) = delete;

  // Appends to `body` what of `bytes` belongs there, out of its chunks. The body's length is not
  // bounded here: it is handed on.
  State take(std::string_view bytes, std::string& body);
  // The connection has ended: a body without a length is complete, anything else is not.
  State end();

  State state() const { return state_; }
  const CallHead& head() const { return head_; }  // from State::body on
  // The connection may carry another request: it stays open, and nothing came after the response.
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
  std::string left_;  // what the parser wants to see again with more behind it
  std::string refusal_;
  int interim_ = 0;
  bool surplus_ = false;
};

}  // namespace tandem
