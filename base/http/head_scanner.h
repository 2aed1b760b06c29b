// Checks the head of a request line by line as the bytes arrive. Strict where HTTP implementations
// differ: bytes that a proxy in front could interpret differently are refused, not repaired.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace tandem {

struct HttpRefusal {
  int status = 400;
  std::string reason;
};

// The head's information about the framing of the body.
struct RequestFraming {
  bool http_1_0 = false;
  bool chunked = false;
  std::optional<unsigned long long> length;  // Content-Length
  bool wants_continue = false;               // Expect: 100-continue
  bool keep_alive = true;
};

// Control characters are not allowed in a line, except a tab in a field's value.
constexpr bool is_text_char(unsigned char c) {
  return (c >= 0x20 && c != 0x7f) || c == '\t';
}

class HeadScanner {
 public:
  static constexpr std::size_t kMaxHeadBytes = 32U << 10;        // including the request line
  static constexpr std::size_t kMaxRequestLineBytes = 8U << 10;  // longer lines get 414

  enum class State { more, complete, refused };
  // `received`: all bytes since the request's first. Bytes scanned by earlier calls are skipped.
  State scan(std::string_view received);

  std::size_t bytes() const { return scanned_; }  // size of the complete head, with its empty line
  const HttpRefusal& refusal() const { return refusal_; }
  const std::string& method() const { return method_; }
  const std::string& target() const { return target_; }
  const RequestFraming& framing() const { return framing_; }
  std::map<std::string, std::string>& headers() { return headers_; }

 private:
  State refuse(int status, std::string reason);
  bool take_request_line(std::string_view line);
  bool take_field(std::string_view line);
  bool judge_framing();
  bool judge_host();
  std::size_t count(const char* name) const;

  std::size_t scanned_ = 0;  // in bytes; whole lines only
  std::size_t searched_ = 0;
  bool has_request_line_ = false;
  std::string method_;
  std::string target_;
  RequestFraming framing_;
  std::map<std::string, std::string> headers_;
  std::map<std::string, std::size_t> repeated_;  // repeated fields, and how often they came
  HttpRefusal refusal_;
};

}  // namespace tandem
