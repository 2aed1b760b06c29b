#include "engine/server/server.h"

#include <algorithm>
#include <system_error>

#include "base/http/http_server.h"
#include "base/http/rest/cors.h"
#include "base/limits/bytes_text.h"
#include "engine/server/api.h"

namespace tandem {
namespace {

constexpr int kMaxPort = 65535;
constexpr std::size_t kMinBodyBytes = 1024;
constexpr const char* kRelayPath = "/v1/relay";
// Room for the data that a router adds to the client's body, mainly the tokens already sent, eight
// bytes each.
constexpr std::size_t kRelayBytes = std::size_t{16} << 20;
constexpr std::int32_t kMaxConnections = 65536;

Status validate(const ServerOptions& options) {
  if (options.port < 0 || options.port > kMaxPort) {
    return invalid("port {} is not from 0 to {}", options.port, kMaxPort);
  }
  if (options.max_body_bytes < kMinBodyBytes) {
    return invalid("max_body_mb: {} is less than {}; raise it", size_text(options.max_body_bytes),
                   size_text(kMinBodyBytes));
  }
  if (options.max_connections < 1 || options.max_connections > kMaxConnections) {
    return invalid("{} connections are not from 1 to {}", options.max_connections, kMaxConnections);
  }
  if (options.keep_alive <= Duration::zero() || options.client_timeout <= Duration::zero() ||
      options.silence <= Duration::zero()) {
    return invalid("the keep-alive, client and silence time-outs must be above zero");
  }
  if (options.max_answer_bytes < 1 || options.max_answers_bytes < options.max_answer_bytes) {
    return invalid("all answers' {} bytes are fewer than one answer's {}",
                   options.max_answers_bytes, options.max_answer_bytes);
  }
  if (options.max_sequences_per_request < 1) {
    return invalid("max_sequences_per_request must be at least 1");
  }
  TANDEM_TRY(Cors::check(options.cors_origins));
  const bool printable = std::all_of(options.api_key.begin(), options.api_key.end(),
                                     [](char c) { return c > ' ' && c < 127; });
  if (!printable) return invalid("the API key must be printable ASCII without spaces");
  for (const auto& root : options.adapter_roots) {
    std::error_code failure;
    if (!std::filesystem::is_directory(root, failure)) {
      return invalid("the adapter root {} is not a folder that can be read", root.string());
    }
  }
  return {};
}

HttpOptions http_options(const ServerOptions& options) {
  HttpOptions http;
  http.host = options.host;
  http.port = options.port;
  http.max_body_bytes = options.max_body_bytes;
  http.wrapping_path = kRelayPath;
  http.wrapping_bytes = kRelayBytes;
  http.max_connections = options.max_connections;
  http.keep_alive = options.keep_alive;
  http.client_timeout = options.client_timeout;
  http.silence = options.silence;
  return http;
}

}  // namespace

struct Server::Impl {
  explicit Impl(const ServerOptions& options) : api(options), http(http_options(options), api) {}

  Api api;
  HttpServer http;
};

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() {
  stop();
}

Result<std::unique_ptr<Server>> Server::create(const ServerOptions& options) {
  TANDEM_TRY(validate(options));
  return std::unique_ptr<Server>(new Server(std::make_unique<Impl>(options)));
}

Status Server::start() {
  return impl_->http.start();
}
int Server::port() const {
  return impl_->http.port();
}
void Server::attach(ServedModel model) {
  impl_->api.attach(std::move(model));
}

void Server::drain() {
  impl_->http.close_after_response();
  impl_->api.drain();
}

bool Server::drain_and_stop(Duration timeout) {
  drain();
  const bool all_ended = impl_->api.end_within(timeout, [this] { impl_->api.cut(); });
  stop();
  return all_ended;
}

void Server::stop() {
  impl_->api.abandon();
  impl_->http.stop();
}

}  // namespace tandem
