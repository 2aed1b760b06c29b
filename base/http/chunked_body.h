// A body in chunks (RFC 9112, section 7.1), parsed byte by byte, so that the result never depends
// on the pieces in which it arrives. A line ends in CR LF and contains no other control character,
// quoted or not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/http/head_scanner.h"

namespace tandem {

class ChunkedBody {
 public:
  static constexpr std::size_t kMaxLeftBytes = 16U << 10;  // all extensions and trailers together

  enum class State { more, complete, refused };

  explicit ChunkedBody(std::size_t max_body_bytes) : max_body_bytes_(max_body_bytes) {}

  // Appends the body's bytes to `body`, and sets `used` to the bytes that belong to this request.
  State take(std::string_view bytes, std::size_t& used, std::string& body);
  const HttpRefusal& refusal() const { return refusal_; }

 private:
  enum class Step { size, data, end_of_data, trailers, done };

  State refuse(int status, std::string reason);
  bool take_line(std::size_t body_bytes);
  bool take_size(std::size_t body_bytes);

  const std::size_t max_body_bytes_;
  Step step_ = Step::size;
  std::size_t left_ = 0;     // bytes left of the chunk's data
  std::size_t dropped_ = 0;  // bytes of extensions and trailers
  std::string line_;         // the line received so far
  HttpRefusal refusal_;
};

}  // namespace tandem
