#include "base/http/rest/cors.h"

#include <algorithm>
#include <string_view>

#include "base/http/rest/error_envelope.h"

namespace tandem {
namespace {

constexpr const char* kEverybody = "*";
constexpr const char* kMaxAgeSeconds = "600";

// scheme://host or scheme://host:port, in the form that browsers use.
bool is_origin(std::string_view text) {
  const std::string_view scheme = text.starts_with("https://")  ? "https://"
                                  : text.starts_with("http://") ? "http://"
                                                                : "";
  if (scheme.empty()) return false;
  const std::string_view host = text.substr(scheme.size());
  return !host.empty() && std::all_of(host.begin(), host.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
           std::string_view(".-:[]_").find(c) != std::string_view::npos;
  });
}

}  // namespace

Status Cors::check(const std::vector<std::string>& origins) {
  for (const std::string& origin : origins) {
    if (origin == kEverybody || is_origin(origin)) continue;
    return invalid(
        "cors_origins: '{}' is neither * nor an origin as browsers send it: scheme, "
        "host in small letters, port if need be, no path (https://chat.example.org)",
        origin);
  }
  return {};
}

bool Cors::for_everybody() const {
  return std::find(origins_.begin(), origins_.end(), kEverybody) != origins_.end();
}

bool Cors::allows(std::string_view origin) const {
  return !origin.empty() &&
         (for_everybody() || std::find(origins_.begin(), origins_.end(), origin) != origins_.end());
}

std::optional<HttpResponse> Cors::preflight(const HttpRequest& request,
                                            const std::string& methods) const {
  const bool asked = request.method == "OPTIONS" && !request.header("origin").empty() &&
                     !request.header("access-control-request-method").empty();
  if (!asked || origins_.empty()) return std::nullopt;
  if (!allows(request.header("origin"))) {
    return envelope_response(
        {403, "Pages of this origin may not call the server", "origin_not_allowed"});
  }
  HttpResponse response;
  response.status = 204;
  response.headers.emplace_back("Access-Control-Allow-Methods", methods);
  // Allows whatever the page wants to send: the calls read only a few known headers.
  if (const auto headers = request.header("access-control-request-headers"); !headers.empty()) {
    response.headers.emplace_back("Access-Control-Allow-Headers", headers);
  }
  response.headers.emplace_back("Access-Control-Max-Age", kMaxAgeSeconds);
  return response;
}

void Cors::add_headers(const HttpRequest& request, HttpResponse& response) const {
  if (origins_.empty()) return;
  const std::string_view origin = request.header("origin");
  if (!for_everybody()) response.headers.emplace_back("Vary", "Origin");
  if (!allows(origin)) return;
  response.headers.emplace_back("Access-Control-Allow-Origin",
                                for_everybody() ? kEverybody : std::string(origin));
  response.headers.emplace_back("Access-Control-Expose-Headers", "X-Request-Id, Retry-After");
}

}  // namespace tandem
