#include "base/http/rest/log_level.h"

#include <nlohmann/json.hpp>
#include <string>

#include "base/http/rest/error_envelope.h"
#include "base/log/log.h"

namespace tandem {
namespace {

// The limit of the body; levels for all existing folders need less.
constexpr std::size_t kMostBytes = 4096;

}  // namespace

HttpResponse show_log_level() {
  HttpResponse response;
  response.body = nlohmann::json({{"log_level", log::levels().text()}}).dump();
  return response;
}

HttpResponse change_log_level(const HttpRequest& request) {
  const auto refused = [](std::string message) {
    return envelope_response({400, std::move(message), {}, 0, "log_level"});
  };
  if (request.body.size() > kMostBytes) return refused("The body is longer than 4096 bytes");
  const auto body = nlohmann::json::parse(request.body, nullptr, false);
  const bool given = body.is_object() && body.size() == 1 && body.contains("log_level") &&
                     body["log_level"].is_string();
  if (!given) return refused(R"(Send {"log_level": "info,handoff=debug"}, or the like)");
  const auto levels = log::Levels::parse(body["log_level"].get_ref<const std::string&>());
  if (!levels) return refused(std::string(levels.status().message()));
  log::set_levels(*levels);
  log::info("the log level is now {}, as request {} asked", levels->text(), request.id);
  return show_log_level();
}

}  // namespace tandem
