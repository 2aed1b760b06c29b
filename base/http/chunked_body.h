// A body in chunks (RFC 9112, section 7.1), byte by byte: what comes out never hangs on the pieces
// in which it arrives, and a line is what ends in CR LF with no other control character, quoted or
// not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/http/head_scanner.h"

namespace tandem {

class ChunkedBody {
 public:
  static constexpr std::size_t kMaxLeftBytes = 16U << 10;  // of all extensions and trailers

  enum class State { more, complete, refused };

  explicit ChunkedBody(std::size_t max_body_bytes) : max_body_bytes_(max_body_bytes) {}

  // Appends to `body` what of `bytes` belongs there, and sets `used` to the bytes of this request.
  State take(std::string_view bytes, std::size_t& used, std::string& body);
  const HttpRefusal& refusal() const { return refusal_; }

 private:
  enum class Step { size, data, end_of_data, trailers, done };

  State refuse(int status, std::string reason);
  bool take_line(std::size_t body_bytes);
  bool take_size(std::size_t body_bytes);

  const std::size_t max_body_bytes_;
  Step step_ = Step::size;
  std::size_t left_ = 0;     // of the chunk's data
  std::size_t dropped_ = 0;  // bytes of extensions and trailers
  std::string line_;         // so far
  HttpRefusal refusal_;
};

}  // namespace tandem
