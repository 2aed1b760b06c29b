#include "base/http/client/http_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/http/client/pool.h"

namespace tandem {
namespace {

std::string message_of(const HttpAddress& address, const CallRequest& request) {
  constexpr std::size_t kHeadBytes = 512;
  std::string message;
  message.reserve(kHeadBytes + request.body.size());
  const auto out = std::back_inserter(message);
  fmt::format_to(out, "{} {} HTTP/1.1\r\nHost: {}\r\n", request.method, request.target,
                 address.authority());
  for (const auto& [name, value] : request.headers) {
    fmt::format_to(out, "{}: {}\r\n", name, value);
  }
  if (!request.body.empty() || request.method == "POST") {
    fmt::format_to(out, "Content-Type: application/json\r\nContent-Length: {}\r\n",
                   request.body.size());
  }
  message += "\r\n";
  message += request.body;
  return message;
}

}  // namespace

std::unique_ptr<Wire> HttpClient::Pool::take(const std::string& server, TimePoint now) {
  const auto found = idle.find(server);
  if (found == idle.end()) return nullptr;
  auto& wires = found->second;
  while (!wires.empty()) {
    // Takes the youngest, so that connections left over from a burst grow old and are closed.
    std::unique_ptr<Wire> wire = std::move(wires.back());
    wires.pop_back();
    if (now - wire->idle_since < keep_alive && wire->is_quiet()) return wire;
  }
  return nullptr;
}

void HttpClient::Pool::drop_old(std::vector<std::unique_ptr<Wire>>& wires, TimePoint now) const {
  const auto young = std::find_if(wires.begin(), wires.end(), [&](const auto& kept) {
    return now - kept->idle_since < keep_alive;
  });
  wires.erase(wires.begin(), young);
}

void HttpClient::Pool::keep(const std::string& server, std::unique_ptr<Wire> wire, TimePoint now) {
  if (now - looked >= keep_alive) {  // also closes those to servers no longer called
    looked = now;
    for (auto at = idle.begin(); at != idle.end();) {
      drop_old(at->second, now);
      at = at->second.empty() ? idle.erase(at) : std::next(at);
    }
  }
  auto& wires = idle[server];
  drop_old(wires, now);
  if (wires.size() >= max_idle) return;
  wire->idle_since = now;
  wires.push_back(std::move(wire));
}

HttpCall::~HttpCall() {
  exchange_->abandon();
}
void HttpCall::pause() {
  exchange_->set_paused(true);
}
void HttpCall::resume() {
  exchange_->set_paused(false);
}

HttpClient::HttpClient(EventLoop& loop, std::size_t max_idle, Duration keep_alive)
    : loop_(loop), pool_(std::make_unique<Pool>()) {
  pool_->max_idle = max_idle;
  pool_->keep_alive = keep_alive;
}
HttpClient::~HttpClient() = default;

std::unique_ptr<HttpCall> HttpClient::call(const HttpAddress& address, const CallRequest& request,
                                           const CallDeadlines& deadlines, CallEvents& events) {
  auto exchange = std::make_shared<Exchange>(*this, address, message_of(address, request),
                                             request.once, deadlines, events);
  exchange->begin();
  return std::make_unique<HttpCall>(std::move(exchange));
}

std::size_t HttpClient::idle_connections() const {
  std::size_t count = 0;
  for (const auto& [server, wires] : pool_->idle) count += wires.size();
  return count;
}

}  // namespace tandem
