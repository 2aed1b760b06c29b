#include "scheduler/cluster/router/front/router_server.h"

#include <utility>

#include "base/http/http_server.h"
#include "base/http/rest/cors.h"
#include "scheduler/cluster/router/front/front.h"

namespace tandem {
namespace {

constexpr Duration kClientTimeout = std::chrono::seconds(60);

HttpOptions http_options(const RouterServerOptions& options) {
  HttpOptions http;
  http.host = options.host;
  http.port = options.port;
  http.max_body_bytes = options.max_body_bytes;
  http.max_connections = options.max_connections;
  http.keep_alive = options.keep_alive;
  http.client_timeout = kClientTimeout;
  http.silence = options.silence;
  return http;
}

}  // namespace

struct RouterServer::Impl {
  Impl(const RouterServerOptions& options, std::unique_ptr<Router> made)
      : router(std::move(made)),
        front(*router, {options.api_key, options.metrics_without_key, options.cors_origins,
                        "There is no such path; docs/cluster.md lists those there are"}),
        http(http_options(options), front) {}

  std::unique_ptr<Router> router;  // outlives the server, whose answers come from it
  Front front;
  HttpServer http;
};

RouterServer::RouterServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RouterServer::~RouterServer() {
  stop();
}

Result<std::unique_ptr<RouterServer>> RouterServer::create(RouterServerOptions options,
                                                           std::unique_ptr<EngineSource> source) {
  TANDEM_TRY(Cors::check(options.cors_origins));
  options.router.api_key = options.api_key;
  TANDEM_ASSIGN(auto router, Router::create(options.router, std::move(source)));
  return std::unique_ptr<RouterServer>(
      new RouterServer(std::make_unique<Impl>(options, std::move(router))));
}

Status RouterServer::start() {
  TANDEM_TRY(impl_->http.start());
  impl_->router->start();
  return {};
}

int RouterServer::port() const {
  return impl_->http.port();
}
bool RouterServer::ready() const {
  return impl_->router->ready();
}

bool RouterServer::drain_and_stop(Duration timeout) {
  impl_->http.close_after_response();
  impl_->front.drain();
  const bool all_ended = impl_->front.end_within(timeout, [this] { impl_->router->cut(); });
  stop();
  return all_ended;
}

void RouterServer::stop() {
  impl_->front.abandon();
  impl_->http.stop();
  impl_->router->stop();
}

}  // namespace tandem
