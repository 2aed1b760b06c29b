#include "base/http/head_scanner.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace tandem {
namespace {

bool is_token_char(unsigned char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         (c != 0 &&
          std::string_view("!#$%&'*+-.^_`|~").find(static_cast<char>(c)) != std::string_view::npos);
}

bool is_token(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_token_char);
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; });
  return lower;
}

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

// True if a list such as "close, x" contains `token` (in lower case).
bool lists(std::string_view list, std::string_view token) {
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    if (lower_case(trimmed(list.substr(0, comma))) == token) return true;
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return false;
}

}  // namespace

HeadScanner::State HeadScanner::refuse(int status, std::string reason) {
  refusal_ = {status, std::move(reason)};
  return State::refused;
}

HeadScanner::State HeadScanner::scan(std::string_view received) {
  while (searched_ < received.size()) {
    const auto c = static_cast<unsigned char>(received[searched_]);
    if (c == '\n') {
      if (searched_ == scanned_ || received[searched_ - 1] != '\r') {
        return refuse(400, "a line of the head ends without a carriage return");
      }
      const std::string_view line = received.substr(scanned_, searched_ - 1 - scanned_);
      scanned_ = ++searched_;
      if (scanned_ > kMaxHeadBytes) break;
      if (!has_request_line_) {
        if (line.empty()) continue;  // some clients append it to a body
        if (!take_request_line(line)) return State::refused;
        has_request_line_ = true;
      } else if (line.empty()) {
        return judge_framing() && judge_host() ? State::complete : State::refused;
      } else if (!take_field(line)) {
        return State::refused;
      }
      continue;
    }
    const bool after_return = searched_ > scanned_ && received[searched_ - 1] == '\r';
    if (after_return || (c != '\r' && !is_text_char(c))) {
      return refuse(400, "the head holds a control character");
    }
    if (!has_request_line_ && searched_ - scanned_ >= kMaxRequestLineBytes) {
      return refuse(414, "the request line is longer than 8 KB");
    }
    if (++searched_ > kMaxHeadBytes) break;
  }
  if (searched_ > kMaxHeadBytes) return refuse(431, "the head is longer than 32 KB");
  return State::more;
}

bool HeadScanner::take_request_line(std::string_view line) {
  const std::size_t first = line.find(' ');
  const std::size_t last = line.rfind(' ');
  const auto bad = [&](int status, const char* reason) {
    refuse(status, reason);
    return false;
  };
  if (first == std::string_view::npos || first == last) {
    return bad(400, "the request line is not 'METHOD target HTTP/1.1'");
  }
  const std::string_view target = line.substr(first + 1, last - first - 1);
  const std::string_view version = line.substr(last + 1);
  if (!is_token(line.substr(0, first))) return bad(400, "the method is not a word");
  if (target.empty() || target.find_first_of(" \t") != std::string_view::npos) {
    return bad(400, "the request's target is empty or holds spaces");
  }
  if (version.size() != 8 || version.substr(0, 5) != "HTTP/" || !is_digit(version[5]) ||
      version[6] != '.' || !is_digit(version[7])) {
    return bad(400, "the request line does not end in 'HTTP/1.1'");
  }
  if (version != "HTTP/1.1" && version != "HTTP/1.0") {
    return bad(505, "this server speaks HTTP/1.1 and HTTP/1.0");
  }
  method_ = line.substr(0, first);
  target_ = target;
  framing_.http_1_0 = version == "HTTP/1.0";
  return true;
}

bool HeadScanner::take_field(std::string_view line) {
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos || !is_token(line.substr(0, colon))) {
    refuse(400, line[0] == ' ' || line[0] == '\t'
                    ? "a header line begins with a space"
                    : "a header line is not 'Name: value' (no space before the colon)");
    return false;
  }
  const std::string name = lower_case(line.substr(0, colon));
  const std::string_view value = trimmed(line.substr(colon + 1));
  const auto [entry, is_new] = headers_.emplace(name, value);
  if (!is_new) {
    entry->second.append(", ").append(value);
    repeated_.emplace(name, 1).first->second += 1;
  }
  return true;
}

std::size_t HeadScanner::count(const char* name) const {
  if (!headers_.contains(name)) return 0;
  const auto found = repeated_.find(name);
  return found == repeated_.end() ? 1 : found->second;
}

// The end of the body must be unambiguous to every reader.
bool HeadScanner::judge_framing() {
  const auto bad = [&](int status, const char* reason) {
    refuse(status, reason);
    return false;
  };
  const bool has_length = count("content-length") > 0;
  if (count("transfer-encoding") > 0) {
    if (framing_.http_1_0) return bad(400, "HTTP/1.0 has no Transfer-Encoding");
    if (has_length) return bad(400, "both Content-Length and Transfer-Encoding are given");
    if (lower_case(headers_["transfer-encoding"]) != "chunked") {
      return bad(501, "of Transfer-Encoding only 'chunked' is known");
    }
    framing_.chunked = true;
  }
  if (has_length) {
    const std::string& text = headers_["content-length"];
    if (count("content-length") > 1) return bad(400, "Content-Length is given more than once");
    if (text.empty() || !std::all_of(text.begin(), text.end(), is_digit)) {
      return bad(400, "Content-Length is not a number");
    }
    unsigned long long value = 0;
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (failure != std::errc{}) return bad(413, "the body is too long");
    framing_.length = value;
  }
  if (count("expect") > 0 && !framing_.http_1_0) {
    if (lower_case(headers_["expect"]) != "100-continue") {
      return bad(417, "of Expect only '100-continue' is known");
    }
    framing_.wants_continue = true;
  }
  const auto connection = headers_.find("connection");
  const std::string_view list =
      connection == headers_.end() ? std::string_view{} : std::string_view{connection->second};
  framing_.keep_alive = framing_.http_1_0 ? lists(list, "keep-alive") : !lists(list, "close");
  return true;
}

bool HeadScanner::judge_host() {
  const std::size_t hosts = count("host");
  if (hosts > 1 || (hosts == 0 && !framing_.http_1_0)) {
    refuse(400, hosts == 0 ? "the Host header is missing" : "Host is given more than once");
    return false;
  }
  if (hosts == 1 && headers_["host"].find_first_of(" \t,/@") != std::string::npos) {
    refuse(400, "the Host header is not a host");
    return false;
  }
  return true;
}

}  // namespace tandem
