// GET /v1/adapters/{digest}/{file}: the files of an adapter, for engines that lack it
#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

#include "engine/server/calls/call.h"
#include "engine/server/messages/response_building.h"

namespace tandem {
namespace {

constexpr std::string_view kPrefix = "/v1/adapters/";
constexpr std::size_t kDigestDigits = 32;

bool is_digest(std::string_view text) {
  return text.size() == kDigestDigits && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

}  // namespace

// Adapters are looked up by digest: a caller without it gets nothing, and no part of the request is
// used in a path.
HttpResponse calls::adapter_file(CallContext& context, const HttpRequest& request,
                                 const nlohmann::json&) {
  const std::string_view rest = std::string_view(request.path).substr(kPrefix.size());
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  const std::string_view digest = rest.substr(0, slash);
  if (!is_digest(digest)) {
    return error_response({404,
                           "Adapters' files are asked for by digest; GET /v1/adapters tells it",
                           {},
                           "not_found",
                           0});
  }
  const std::string_view file = rest.substr(std::min(slash + 1, rest.size()));
  Result<AdapterFile> opened =
      context.model().service->open_adapter_file(std::string(digest), file);
  if (!opened) return error_response(to_api_error(opened.status()));
  HttpResponse response;
  response.content_type = "application/octet-stream";
  response.source_bytes = opened->file.size();
  response.source = context.file_sender.send(*std::move(opened));
  if (response.source == nullptr) {
    return error_response({503,
                           "This engine sends as many adapters' files as it does at once; come "
                           "again, or ask another engine",
                           {},
                           "overloaded",
                           kRetryAfterS});
  }
  return response;
}

}  // namespace tandem
