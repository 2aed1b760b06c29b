#include "tools/bench/serve/load_target.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "tools/bench/serve/answer_reader.h"

namespace tandem {
namespace {

using nlohmann::json;

constexpr Duration kOneAnswer = std::chrono::seconds(10);
constexpr Duration kPause = std::chrono::milliseconds(250);
constexpr std::size_t kMaxListBytes = std::size_t{64} << 20;

struct Listing final : CallEvents {
  explicit Listing(EventLoop& of) : loop(of) {}
  void on_head(const CallHead& head) override { status = head.status; }
  void on_bytes(std::string_view bytes) override {
    if (body.size() + bytes.size() <= kMaxListBytes) body += bytes;
  }
  void on_end(CallEnd got, std::string_view why) override {
    end = got;
    reason = why;
    loop.stop();
  }

  EventLoop& loop;
  int status = 0;
  std::string body;
  CallEnd end = CallEnd::unreachable;
  std::string reason;
};

std::vector<ListedModel> read_models(const std::string& body) {
  std::vector<ListedModel> models;
  const json parsed = json::parse(body, nullptr, false);
  if (!parsed.is_object() || !parsed.contains("data") || !parsed["data"].is_array()) return models;
  for (const json& one : parsed["data"]) {
    if (!one.is_object() || !one.contains("id") || !one["id"].is_string()) continue;
    models.push_back(
        {one["id"].get<std::string>(), one.contains("parent") && one["parent"].is_string()});
  }
  return models;
}

}  // namespace

Result<LoadTarget> parse_base_url(std::string_view url) {
  constexpr std::string_view kPlain = "http://";
  constexpr std::string_view kTls = "https://";
  const std::string_view whole = url;
  const bool tls = url.starts_with(kTls);
  if (tls) {
    url.remove_prefix(kTls.size());
  } else if (url.starts_with(kPlain)) {
    url.remove_prefix(kPlain.size());
  }
  const std::size_t slash = std::min(url.find('/'), url.size());
  std::string host(url.substr(0, slash));
  LoadTarget target;
  target.prefix = url.substr(slash);
  while (target.prefix.ends_with('/')) target.prefix.pop_back();
  if (host.find(':') == std::string::npos || host.ends_with(']')) host += tls ? ":443" : ":80";
  const Result<HttpAddress> address = HttpAddress::parse(host);
  const bool plain = std::ranges::all_of(target.prefix, [](char c) { return c > ' ' && c < 127; });
  if (!address || !plain) {
    return invalid(
        "base_url: '{}' is no address of a server; give http://HOST:PORT or https://HOST:PORT",
        whole);
  }
  target.address = *address;
  target.address.tls = tls;
  return target;
}

Result<std::vector<ListedModel>> ask_models(const LoadTarget& target, Duration patience) {
  const TimePoint until = std::chrono::steady_clock::now() + patience;
  for (;;) {
    EventLoop loop;
    HttpClient client(loop);
    Listing listing(loop);
    CallRequest request;
    request.target = target.prefix + "/v1/models";
    request.headers = target.headers;
    const auto call =
        client.call(target.address, request, {kOneAnswer, kOneAnswer, kOneAnswer}, listing);
    LoopTimer late(loop, [&] {
      listing.reason = "no whole answer in time";
      loop.stop();
    });
    late.start(3 * kOneAnswer);
    loop.run();
    if (listing.end == CallEnd::complete && listing.status == 200) return read_models(listing.body);
    if (listing.end == CallEnd::complete && (listing.status == 401 || listing.status == 403)) {
      return error(StatusCode::unauthenticated,
                   "{} answers {}: {}; the variable OPENAI_API_KEY holds the key that is sent",
                   target.address.text(), listing.status, error_text(listing.body));
    }
    // Servers answer 503 while they start.
    if (listing.end == CallEnd::complete && listing.status != 503)
      return std::vector<ListedModel>();
    if (std::chrono::steady_clock::now() + kPause > until) {
      return error(StatusCode::unavailable,
                   "{}: {}; is the server up? --ready-check-timeout-sec N waits for it",
                   target.address.text(),
                   listing.end == CallEnd::complete ? error_text(listing.body) : listing.reason);
    }
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace tandem
