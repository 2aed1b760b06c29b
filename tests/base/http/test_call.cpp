#include "tests/base/http/test_call.h"

#include <gtest/gtest.h>
#include <httplib.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <utility>

namespace tandem {
namespace {

constexpr std::chrono::seconds kPatience{90};

httplib::Request request_of(std::string_view method, std::string_view path, std::string_view body,
                            std::string_view more_headers) {
  httplib::Request request;
  request.method = method;
  request.path = path;
  request.body = body;
  if (!body.empty()) request.headers.emplace("Content-Type", "application/json");
  while (!more_headers.empty()) {
    const std::size_t end = more_headers.find("\r\n");
    const std::string_view line = more_headers.substr(0, end);
    const std::size_t colon = line.find(':');
    if (end == std::string_view::npos || colon == std::string_view::npos) {
      ADD_FAILURE() << "no line of a header: " << more_headers;
      break;
    }
    std::string_view value = line.substr(colon + 1);
    while (value.starts_with(' ')) value.remove_prefix(1);
    request.headers.emplace(line.substr(0, colon), value);
    more_headers.remove_prefix(end + 2);
  }
  return request;
}

std::unique_ptr<httplib::Client> client_to(int port) {
  auto client = std::make_unique<httplib::Client>("127.0.0.1", port);
  client->set_connection_timeout(kPatience);
  client->set_read_timeout(kPatience);
  client->set_write_timeout(kPatience);
  client->set_keep_alive(true);  // it does not ask the server to close
  client->set_url_encode(false);
  return client;
}

void take_head(const httplib::Response& from, ClientResponse& to) {
  to.status = from.status;
  for (const auto& [name, value] : from.headers) {
    std::string lower = name;
    std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
    to.headers[lower] = value;
  }
}

// Runs on the calling thread, so that tests can choose the threads whose allocations fail.
ClientResponse call(int port, httplib::Request request) {
  ClientResponse response;
  request.response_handler = [&](const httplib::Response& head) {
    take_head(head, response);
    return true;
  };
  request.content_receiver = [&](const char* data, std::size_t bytes, auto...) {
    response.body.append(data, bytes);
    return true;
  };
  const httplib::Result result = client_to(port)->send(request);
  if (result) take_head(*result, response);  // a head without a body comes last
  EXPECT_NE(result.error(), httplib::Error::Connection) << "nobody listens at " << port;
  response.complete = static_cast<bool>(result);
  return response;
}

}  // namespace

TestCall::TestCall(int port, std::string_view method, std::string_view path, std::string_view body,
                   std::string_view more_headers)
    : client_(client_to(port)) {
  httplib::Request request = request_of(method, path, body, more_headers);
  request.response_handler = [this](const httplib::Response& head) {
    const std::lock_guard lock(mutex_);
    take_head(head, head_);
    changed_.notify_all();
    return !leaves_;
  };
  request.content_receiver = [this](const char* data, std::size_t bytes, auto...) {
    std::unique_lock lock(mutex_);
    chunk_.assign(data, bytes);
    changed_.notify_all();
    changed_.wait(lock, [this] { return leaves_ || chunk_.empty(); });
    return !leaves_;
  };
  thread_ = std::thread([this, request = std::move(request)] {
    const httplib::Result result = client_->send(request);
    const std::lock_guard lock(mutex_);
    if (result) take_head(*result, head_);
    head_.complete = static_cast<bool>(result);
    is_over_ = true;
    changed_.notify_all();
  });
}

TestCall::~TestCall() {
  {
    std::unique_lock lock(mutex_);
    leaves_ = true;
    changed_.notify_all();
    // A call that is not connected yet cannot be stopped; it will be once it is.
    while (!is_over_) {
      lock.unlock();
      client_->stop();
      lock.lock();
      changed_.wait_for(lock, std::chrono::milliseconds(5), [this] { return is_over_; });
    }
  }
  thread_.join();
}

ClientResponse TestCall::receive_head() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return head_.status != 0 || is_over_; });
  ClientResponse head = head_;
  head.complete = false;
  return head;
}

std::string TestCall::next_chunk() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !chunk_.empty() || is_over_; });
  std::string chunk = std::exchange(chunk_, {});
  changed_.notify_all();
  return chunk;
}

std::string TestCall::receive_chunks() {
  std::string all;
  for (std::string chunk = next_chunk(); !chunk.empty(); chunk = next_chunk()) all += chunk;
  return all;
}

std::string TestCall::next_event() {
  std::size_t end = 0;
  while ((end = events_.find("\n\n")) == std::string::npos) {
    const std::string chunk = next_chunk();
    if (chunk.empty()) return {};
    events_ += chunk;
  }
  const std::string event = events_.substr(0, end);
  events_.erase(0, end + 2);
  if (event.starts_with(':')) return next_event();  // a comment
  EXPECT_EQ(event.substr(0, 6), "data: ");
  return event.substr(6);
}

ClientResponse TestCall::receive() {
  ClientResponse response = receive_head();
  response.body = receive_chunks();
  response.complete = is_complete();
  return response;
}

bool TestCall::is_complete() {
  const std::lock_guard lock(mutex_);
  return is_over_ && head_.complete;
}

ClientResponse get(int port, std::string_view path, std::string_view more_headers) {
  return call(port, request_of("GET", path, {}, more_headers));
}

ClientResponse post(int port, std::string_view path, const nlohmann::json& body,
                    std::string_view more_headers) {
  return call(port, request_of("POST", path, body.dump(), more_headers));
}

ClientResponse post_raw(int port, std::string_view path, std::string_view body) {
  return call(port, request_of("POST", path, body, {}));
}

}  // namespace tandem
