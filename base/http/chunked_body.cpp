#include "base/http/chunked_body.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <utility>

#include "base/limits/bytes_text.h"

namespace tandem {
namespace {

constexpr std::size_t kMaxDigits = 16;

// False for the fields that decide where a message ends: they may only come before the body.
bool may_trail(std::string_view name) {
  constexpr std::string_view kNever[] = {"content-length", "transfer-encoding"};
  return std::none_of(std::begin(kNever), std::end(kNever), [&](std::string_view never) {
    return std::equal(name.begin(), name.end(), never.begin(), never.end(),
                      [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a + 32 : a) == b; });
  });
}

}  // namespace

ChunkedBody::State ChunkedBody::refuse(int status, std::string reason) {
  refusal_ = {status, std::move(reason)};
  return State::refused;
}

ChunkedBody::State ChunkedBody::take(std::string_view bytes, std::size_t& used, std::string& body) {
  used = 0;
  while (step_ != Step::done && used < bytes.size()) {
    if (step_ == Step::data) {
      const std::size_t count = std::min(left_, bytes.size() - used);
      body.append(bytes.substr(used, count));
      used += count;
      left_ -= count;
      if (left_ == 0) step_ = Step::end_of_data;
      continue;
    }
    const char c = bytes[used++];
    const bool after_return = !line_.empty() && line_.back() == '\r';
    if (c == '\n' && after_return) {
      line_.pop_back();
      if (!take_line(body.size())) return State::refused;
      line_.clear();
      continue;
    }
    if (after_return || (c != '\r' && !is_text_char(static_cast<unsigned char>(c)))) {
      return refuse(400, "the chunks of the body cannot be read: a line holds a control character");
    }
    line_ += c;
    if (line_.size() > kMaxLeftBytes) {
      return refuse(400, "a chunk's extensions or the trailers are too long");
    }
  }
  return step_ == Step::done ? State::complete : State::more;
}

bool ChunkedBody::take_line(std::size_t body_bytes) {
  if (step_ == Step::size) return take_size(body_bytes);
  if (step_ == Step::end_of_data) {
    step_ = Step::size;
    if (line_.empty()) return true;
    refuse(400, "the chunks of the body cannot be read: one is longer than it says");
    return false;
  }
  if (line_.empty()) {
    step_ = Step::done;
    return true;
  }
  dropped_ += line_.size();
  const std::size_t colon = line_.find(':');
  if (dropped_ > kMaxLeftBytes) {
    refuse(400, "a chunk's extensions or the trailers are too long");
  } else if (colon == std::string::npos || colon == 0 || line_.find_first_of(" \t") < colon) {
    refuse(400, "the chunks of the body cannot be read: a trailer is not 'Name: value'");
  } else if (!may_trail(std::string_view(line_).substr(0, colon))) {
    refuse(400, "a trailer says what belongs in the head");
  } else {
    return true;
  }
  return false;
}

// "1a" or "1a;name=value": everything but the size is ignored.
bool ChunkedBody::take_size(std::size_t body_bytes) {
  std::uint64_t size = 0;
  const auto [end, failure] = std::from_chars(line_.data(), line_.data() + line_.size(), size, 16);
  const auto digits = static_cast<std::size_t>(end - line_.data());
  const std::size_t next = line_.find_first_not_of(" \t", digits);
  dropped_ += line_.size() - digits;
  if (failure != std::errc{} || digits > kMaxDigits ||
      (next != std::string::npos && line_[next] != ';')) {
    refuse(400, "the chunks of the body cannot be read: a chunk's size is not a number");
  } else if (next == std::string::npos && digits < line_.size()) {
    refuse(400, "the chunks of the body cannot be read: spaces follow a chunk's size");
  } else if (dropped_ > kMaxLeftBytes) {
    refuse(400, "a chunk's extensions or the trailers are too long");
  } else if (size > max_body_bytes_ - body_bytes) {
    refuse(413, fmt::format("the body is longer than {}", size_text(max_body_bytes_)));
  } else {
    left_ = static_cast<std::size_t>(size);
    step_ = size == 0 ? Step::trailers : Step::data;
    return true;
  }
  return false;
}

}  // namespace tandem
