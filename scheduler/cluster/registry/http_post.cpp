#include "scheduler/cluster/registry/http_post.h"

#include <fmt/format.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <cstdint>
#include <exception>
#include <future>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"

namespace tandem {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using Tcp = asio::ip::tcp;
using Addresses = std::vector<Tcp::endpoint>;

constexpr std::uint64_t kMaxBodyBytes = std::uint64_t{64} << 20;
constexpr std::size_t kMaxReadBytes = 64 << 10;
constexpr int kHttp11 = 11;

Status no_answer(const HttpEndpoint& endpoint, const std::string& why) {
  return error(StatusCode::unavailable, "{}: {}", endpoint.text(), why);
}

// The resolver may take minutes and cannot be cancelled, so it runs in a detached thread.
Result<Addresses> resolve(const HttpEndpoint& endpoint, TimePoint deadline) {
  struct Found {
    beast::error_code failure;
    Addresses addresses;
  };
  const auto look_up = [](const std::string& host, const std::string& port,
                          Tcp::resolver::flags flags) {
    Found found;
    asio::io_context loop;
    Tcp::resolver resolver(loop);
    for (const auto& each : resolver.resolve(host, port, flags, found.failure)) {
      found.addresses.push_back(each.endpoint());
    }
    return found;
  };
  const auto numbers = Tcp::resolver::numeric_host | Tcp::resolver::numeric_service;
  Found found = look_up(endpoint.host, endpoint.port, numbers);
  if (found.addresses.empty()) {
    auto task = std::make_shared<std::packaged_task<Found()>>([look_up, endpoint] {
      return look_up(endpoint.host, endpoint.port, Tcp::resolver::numeric_service);
    });
    std::future<Found> answer = task->get_future();
    std::thread([task] { (*task)(); }).detach();
    if (answer.wait_until(deadline) != std::future_status::ready) {
      return no_answer(endpoint, "its name is still being looked up");
    }
    found = answer.get();
  }
  if (!found.addresses.empty()) return std::move(found.addresses);
  return no_answer(endpoint, found.failure ? found.failure.message() : "no such host");
}

class Exchange {
 public:
  Exchange(const HttpEndpoint& endpoint, TimePoint deadline) : endpoint_(endpoint), stream_(loop_) {
    stream_.expires_at(deadline);
    parser_.body_limit(kMaxBodyBytes);
  }

  Result<HttpAnswer> run(const Addresses& addresses, http::request<http::string_body>& request,
                         const LineListener& listener) {
    TANDEM_TRY(wait([&](auto done) { stream_.async_connect(addresses, std::move(done)); }));
    TANDEM_TRY(wait([&](auto done) { http::async_write(stream_, request, std::move(done)); }));
    TANDEM_TRY(wait(
        [&](auto done) { http::async_read_header(stream_, buffer_, parser_, std::move(done)); }));
    HttpAnswer answer;
    answer.status = static_cast<int>(parser_.get().result_int());
    std::string& body = parser_.get().body();
    while (true) {
      if (listener != nullptr && !tell_lines(body, listener)) answer.complete = false;
      if (!answer.complete || parser_.is_done()) break;
      const Status read = wait(
          [&](auto done) { http::async_read_some(stream_, buffer_, parser_, std::move(done)); });
      if (read) continue;
      if (listener == nullptr || failure_ != beast::error::timeout) return read;
      answer.complete = false;
    }
    answer.body = std::move(body);
    return answer;
  }

 private:
  // Runs until the operation has ended; the stream's deadline ends it at the latest.
  template <typename Start>
  Status wait(Start start) {
    failure_ = {};
    start([this](beast::error_code failure, auto&&...) { failure_ = failure; });
    loop_.restart();
    loop_.run();
    if (!failure_) return {};
    return no_answer(endpoint_,
                     failure_ == beast::error::timeout ? "no answer in time" : failure_.message());
  }

  // Passes whole lines to the listener and removes them from the body. Returns false if the
  // listener wants no more.
  static bool tell_lines(std::string& body, const LineListener& listener) {
    std::size_t begin = 0;
    bool goes_on = true;
    while (goes_on) {
      const std::size_t end = body.find('\n', begin);
      if (end == std::string::npos) break;
      goes_on = listener(std::string_view(body).substr(begin, end - begin));
      begin = end + 1;
    }
    body.erase(0, begin);
    return goes_on;
  }

  const HttpEndpoint& endpoint_;
  asio::io_context loop_;
  beast::tcp_stream stream_;
  beast::flat_buffer buffer_{kMaxReadBytes};
  http::response_parser<http::string_body> parser_;
  beast::error_code failure_;  // of the last operation
};

Result<HttpAnswer> post(const HttpEndpoint& endpoint, const std::string& path, std::string body,
                        TimePoint deadline, const LineListener& listener) {
  TANDEM_ASSIGN(const Addresses addresses, resolve(endpoint, deadline));
  http::request<http::string_body> request(http::verb::post, path, kHttp11);
  request.set(http::field::host, endpoint.text());
  request.set(http::field::content_type, "application/json");
  request.keep_alive(false);
  request.body() = std::move(body);
  request.prepare_payload();
  Exchange exchange(endpoint, deadline);
  return exchange.run(addresses, request, listener);
}

}  // namespace

std::string HttpEndpoint::text() const {
  const bool v6 = host.find(':') != std::string::npos;
  return fmt::format("{}{}{}:{}", v6 ? "[" : "", host, v6 ? "]" : "", port);
}

Result<HttpAnswer> http_post(const HttpEndpoint& endpoint, const std::string& path,
                             std::string body, TimePoint deadline, const LineListener& listener) {
  try {
    return post(endpoint, path, std::move(body), deadline, listener);
  } catch (const std::exception& failure) {  // no memory, no descriptor, no thread
    return no_answer(endpoint, failure.what());
  }
}

}  // namespace tandem
