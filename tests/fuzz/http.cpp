// Input: the first byte chooses how the rest is cut into pieces. The same requests and the same
// refusal must come out however it is cut, because a reader that can take one request for two
// allows smuggling. If a body breaks several rules, the reported one may depend on the pieces.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "base/check.h"
#include "base/http/inflate.h"
#include "base/http/request_reader.h"
#include "tests/fuzz/targets.h"

namespace tandem::fuzz {
namespace {

constexpr std::size_t kMaxBody = 4096;

std::string shown(const HttpRequest& request) {
  std::string all = fmt::format("{} {} ? {}\n", request.method, request.path, request.query);
  for (const auto& [name, value] : request.headers) all += fmt::format("{}: {}\n", name, value);
  return all + request.body + "\n";
}

// Reads like a connection: a head, its body, the next head.
std::string read_all(std::string_view text, std::size_t piece) {
  RequestReader reader(kMaxBody);
  std::string received;
  std::string seen;
  bool in_body = false;
  while (true) {
    const auto state = in_body ? reader.read_body(received) : reader.read_head(received);
    if (state == RequestReader::State::refused) {
      TANDEM_CHECK(reader.refusal().status >= 400 && reader.refusal().status < 600);
      return seen + (in_body ? "refused" : fmt::format("refused {}", reader.refusal().status));
    }
    if (state == RequestReader::State::more) {
      if (text.empty()) return seen;
      const std::size_t count = std::min(piece, text.size());
      received += text.substr(0, count);
      text.remove_prefix(count);
      continue;
    }
    if (!in_body && reader.too_long()) return seen + "too long";
    in_body = !in_body && reader.request().has_body;
    if (in_body) continue;
    HttpRequest& request = reader.request();
    TANDEM_CHECK(request.body.size() <= kMaxBody, "{} bytes", request.body.size());
    if (content_coding(request.header("content-encoding")) == ContentCoding::deflated) {
      std::string plain;
      (void)inflate_bytes(request.body, kMaxBody, plain);
      TANDEM_CHECK(plain.size() <= kMaxBody, "{} bytes", plain.size());
    }
    seen += shown(request);
    reader.reset();
  }
}

}  // namespace

void fuzz_http(Bytes bytes) {
  if (bytes.empty()) return;
  const std::string_view text = text_of(bytes.subspan(1));
  const std::size_t piece = 1 + (std::to_integer<std::size_t>(bytes[0]) % 64);
  const std::string whole = read_all(text, text.size() + 1);
  const std::string pieces = read_all(text, piece);
  TANDEM_CHECK(whole == pieces, "at once:\n{}\nin pieces of {}:\n{}", whole, piece, pieces);
}

}  // namespace tandem::fuzz
