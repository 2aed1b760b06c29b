#include "base/http/service/rest_service.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>

#include "base/check.h"
#include "base/dashboard/page.h"
#include "base/http/request_id.h"
#include "base/http/rest/error_envelope.h"
#include "base/log/log.h"

namespace tandem {
namespace {

constexpr const char* kOther = "other";
constexpr Duration kLastWords = std::chrono::milliseconds(500);  // for clients to receive the error

bool matches(std::string_view pattern, std::string_view path) {
  std::string_view start = pattern.substr(0, pattern.find('{'));
  if (!start.ends_with('/') || start == "/") return pattern == path;
  return path.size() > start.size() && path.starts_with(start);
}

bool is_get(const RestRoute& route) {
  return std::string_view(route.method) == "GET";
}

// Ignores case and parameters.
bool is_json_type(std::string_view content_type) {
  constexpr std::string_view kJsonType = "application/json";
  std::string_view type = content_type.substr(0, content_type.find(';'));
  while (!type.empty() && type.back() == ' ') type.remove_suffix(1);
  return std::equal(type.begin(), type.end(), kJsonType.begin(), kJsonType.end(),
                    [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a + 32 : a) == b; });
}

}  // namespace

RestService::RestService(RestOptions options, std::vector<RestRoute> routes)
    : options_(std::move(options)), cors_(options_.cors_origins), routes_(std::move(routes)) {}

RestService::Match RestService::find(const HttpRequest& request) const {
  Match match;
  for (const RestRoute& route : routes_) {
    if (!matches(route.path, request.path)) continue;
    match.other = &route;
    if (request.method == route.method || (request.method == "HEAD" && is_get(route))) {
      match.route = &route;
    }
  }
  return match;
}

std::string RestService::allowed_methods(std::string_view path) const {
  std::string list;
  for (const RestRoute& route : routes_) {
    if (!matches(route.path, path)) continue;
    if (!list.empty()) list += ", ";
    list += is_get(route) ? "GET, HEAD" : route.method;
  }
  return list;
}

const char* RestService::path_label(const HttpRequest& request) const {
  const Match match = find(request);
  return match.other != nullptr ? match.other->path : kOther;
}

// Probes have no key, and their answer is one word.
bool RestService::is_for_everybody(std::string_view path) const {
  return path == "/health" || path == "/ready" || is_page_path(path) ||
         (options_.metrics_without_key && path == "/metrics");
}

std::optional<HttpResponse> RestService::judge(const Match& match, const HttpRequest& request) {
  if (match.other != nullptr) {
    if (auto told = cors_.preflight(request, allowed_methods(request.path))) return told;
  }
  if (!is_for_everybody(request.path)) {
    if (auto refusal = refuse_without_key(request, options_.api_key)) return refusal;
  }
  if (match.other == nullptr) {
    return envelope_response({404, options_.no_such_path, "path_not_found"});
  }
  if (match.route == nullptr) {
    const std::string methods = allowed_methods(request.path);
    HttpResponse response = envelope_response(
        {405, fmt::format("Call {} by {}", match.other->path, methods), "method_not_allowed"});
    response.headers.emplace_back("Allow", methods);
    return response;
  }
  if (auto refusal = check(*match.route, request)) return refusal;
  if (request.has_body && request.method == "POST" &&
      !is_json_type(request.header("content-type"))) {
    return envelope_response(
        {415, "Send the body as 'Content-Type: application/json'", "unsupported_media_type"});
  }
  return std::nullopt;
}

std::optional<HttpResponse> RestService::screen(const HttpRequest& request) {
  const Match match = find(request);
  auto refusal = judge(match, request);
  if (refusal) {
    refused(match.other != nullptr ? match.other->path : kOther, request.method, refusal->status);
  }
  return refusal;
}

HttpResponse RestService::handle(const HttpRequest& request) {
  const Match match = find(request);
  TANDEM_CHECK(match.route != nullptr, "screen() let {} {} through", request.method, request.path);
  const TimePoint start = SteadyClock().now();
  HttpResponse response;
  try {
    response = match.route->call(request);
  } catch (const std::exception& failure) {
    response = failed(request, failure.what());
  }
  answered(*match.route, request, response, start);
  return response;
}

// The call counts as running until its answer has been sent; then the answer's reservations are
// released.
HttpResponse RestService::run(const std::function<HttpResponse()>& call) {
  std::shared_ptr<void> running = begin_call();
  if (running == nullptr) return not_serving();
  HttpResponse response = call();
  response.guard = std::make_shared<std::pair<std::shared_ptr<void>, std::shared_ptr<void>>>(
      std::move(running), std::move(response.guard));
  return response;
}

// The lock is released first: if there is no memory for the handle, the failed construction ends
// the call.
std::shared_ptr<void> RestService::begin_call() {
  {
    const std::lock_guard lock(mutex_);
    if (draining_) return nullptr;
    ++running_;
  }
  return {this, [](RestService* service) {
            // Notified under the lock, because the waiter may destroy this object as soon as it has
            // the lock.
            const std::lock_guard end(service->mutex_);
            if (--service->running_ == 0) service->idle_.notify_all();
          }};
}

void RestService::drain() {
  const std::lock_guard lock(mutex_);
  draining_ = true;
}

bool RestService::wait_idle(Duration timeout) {
  std::unique_lock lock(mutex_);
  idle_.wait_for(lock, timeout, [&] { return running_ == 0 || abandoned_; });
  return running_ == 0 && !abandoned_;
}

bool RestService::end_within(Duration timeout, const std::function<void()>& cut) {
  if (wait_idle(timeout)) return true;
  log::warning("requests still running at the end of the drain are cut off");
  cut();
  (void)wait_idle(kLastWords);
  return false;
}

void RestService::abandon() {
  const std::lock_guard lock(mutex_);
  draining_ = true;
  abandoned_ = true;
  idle_.notify_all();
}

bool RestService::at_once(const HttpRequest& request) {
  const Match match = find(request);
  return match.route != nullptr && match.route->at_once;
}

bool RestService::slow(const HttpRequest& request) {
  const Match match = find(request);
  return match.route != nullptr && match.route->slow;
}

HttpResponse RestService::not_serving() {
  return envelope_response({503, "The server is shutting down", "draining", 1});
}

HttpResponse RestService::failed(const HttpRequest& request, const char* why) {
  log::error("{}: {}", request.id, why);
  return envelope_response({500, fmt::format("Internal error; the log has it under {}", request.id),
                            "internal_error", 0});
}

HttpResponse RestService::refuse(int status, std::string_view reason) {
  refused(kOther, kOther, status);
  const bool busy = status == 503;
  std::string message(reason);
  if (!message.empty() && message[0] >= 'a' && message[0] <= 'z') message[0] -= 32;
  return envelope_response({status, std::move(message), busy ? "overloaded" : refusal_code(status),
                            busy ? options_.retry_after_s : 0});
}

void RestService::finish(const HttpRequest& request, HttpResponse& response) {
  response.headers.emplace_back("X-Request-Id", request.id.empty() ? request_id({}) : request.id);
  if (request.trace.valid()) {
    response.headers.emplace_back("traceparent", traceparent(request.trace));
  }
  cors_.add_headers(request, response);
}

}  // namespace tandem
