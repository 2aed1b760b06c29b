// The engine's REST interface: its routes, when they are served, and how calls are counted, logged
// and traced. Sockets are handled by base/http, the calls themselves by engine/server/calls.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "base/clock.h"
#include "base/http/http_message.h"
#include "base/http/service/rest_service.h"
#include "engine/server/calls/call.h"
#include "engine/server/options/server_options.h"

namespace tandem {

// Thread-safe.
class Api final : public RestService {
 public:
  explicit Api(ServerOptions options);

  void attach(ServedModel model);
  void drain() override;
  void abandon() override;
  // Ends incomplete answers now, with an error that says so.
  void cut() { context_.hand_over.cut(); }

 private:
  std::vector<RestRoute> bind_routes();
  HttpResponse call(const Route& route, const HttpRequest& request);

  std::optional<HttpResponse> check(const RestRoute& route, const HttpRequest& request) override;
  HttpResponse not_serving() override;
  HttpResponse failed(const HttpRequest& request, const char* why) override;
  const char* refusal_code(int status) const override;
  void refused(const char* path, const std::string& method, int status) override;
  void answered(const RestRoute& route, const HttpRequest& request, HttpResponse& response,
                TimePoint start) override;

  CallContext context_;
  std::unique_ptr<const ServedModel> owned_model_;
};

}  // namespace tandem
