#include "base/http/request_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

namespace tandem {
namespace {

namespace http = boost::beast::http;
using BeastError = boost::beast::error_code;

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Returns nothing if a '%' is not followed by two hexadecimal digits.
std::optional<std::string> percent_decoded(std::string_view text) {
  std::string decoded;
  decoded.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    const int high = i + 2 < text.size() ? hex_value(text[i + 1]) : -1;
    const int low = i + 2 < text.size() ? hex_value(text[i + 2]) : -1;
    if (high < 0 || low < 0) return std::nullopt;
    decoded += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return decoded;
}

}  // namespace

RequestReader::RequestReader(std::size_t max_body_bytes, std::string wrapping_path,
                             std::size_t wrapping_bytes)
    : max_body_bytes_(max_body_bytes),
      wrapping_path_(std::move(wrapping_path)),
      wrapping_bytes_(wrapping_bytes),
      limit_(max_body_bytes),
      chunks_(std::in_place, max_body_bytes) {}

RequestReader::State RequestReader::refuse(int status, std::string reason) {
  refusal_ = {status, std::move(reason)};
  return State::refused;
}

void RequestReader::reset() {
  scanner_ = {};
  request_ = {};
  limit_ = max_body_bytes_;
  chunks_.emplace(limit_);
}

bool RequestReader::too_long() const {
  return framing().length.value_or(0) > limit_;
}

RequestReader::State RequestReader::read_head(std::string& received) {
  const HeadScanner::State state = scanner_.scan(received);
  if (state == HeadScanner::State::more) return State::more;
  if (state == HeadScanner::State::refused) {
    refusal_ = scanner_.refusal();
    return State::refused;
  }
  // Empty lines before the request line are skipped.
  const std::size_t blank = received.find_first_not_of("\r\n");
  const RequestFraming& framing = scanner_.framing();
  request_.method = scanner_.method();
  request_.headers = std::move(scanner_.headers());
  request_.has_body = framing.chunked || framing.length.value_or(0) > 0;
  if (!take_target()) return State::refused;
  if (wrapping_bytes_ > 0 && request_.path == wrapping_path_) {
    limit_ += wrapping_bytes_;
    chunks_.emplace(limit_);
  }
  if (!too_long()) {
    http::request_parser<http::empty_body> parser;  // parses only the head
    parser.body_limit(std::numeric_limits<std::uint64_t>::max());
    parser.header_limit(static_cast<std::uint32_t>(2 * HeadScanner::kMaxHeadBytes));
    BeastError failure;
    parser.put(boost::asio::buffer(received.data() + blank, scanner_.bytes() - blank), failure);
    if ((failure && failure != http::error::need_more) || !parser.is_header_done()) {
      return refuse(400, fmt::format("this is not a valid HTTP request: {}", failure.message()));
    }
  }
  received.erase(0, scanner_.bytes());
  return State::complete;
}

// "/path?query", "http://host/path?query" or "*".
bool RequestReader::take_target() {
  std::string_view target = scanner_.target();
  const std::size_t scheme = target.find("://");
  if (target[0] != '/' && scheme != std::string_view::npos) {
    const std::size_t path = target.find_first_of("/?", scheme + 3);
    target = path == std::string_view::npos ? "/" : target.substr(path);
  }
  target = target.substr(0, target.find('#'));
  const std::size_t question = std::min(target.find('?'), target.size());
  auto path = percent_decoded(target.substr(0, question));
  if (!path) {
    refuse(400, "the path holds a '%' that no two hexadecimal digits follow");
    return false;
  }
  request_.path = std::move(*path);
  if (question < target.size()) request_.query = target.substr(question + 1);
  return true;
}

RequestReader::State RequestReader::read_body(std::string& received) {
  if (!framing().chunked) {
    const auto length = static_cast<std::size_t>(framing().length.value_or(0));
    const std::size_t count = std::min(length - request_.body.size(), received.size());
    request_.body.append(received, 0, count);
    received.erase(0, count);
    return request_.body.size() == length ? State::complete : State::more;
  }
  std::size_t used = 0;
  const ChunkedBody::State state = chunks_->take(received, used, request_.body);
  received.erase(0, used);
  if (state == ChunkedBody::State::more) return State::more;
  if (state == ChunkedBody::State::complete) return State::complete;
  refusal_ = chunks_->refusal();
  return State::refused;
}

}  // namespace tandem
