#include "base/http/http_server.h"

#include <malloc.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <exception>
#include <mutex>
#include <new>
#include <optional>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/http/connection.h"
#include "base/http/sockets/listener.h"
#include "base/http/sockets/listening_socket.h"
#include "base/limits/process_limits.h"
#include "base/log/log.h"

namespace tandem {
namespace {

namespace asio = boost::asio;

constexpr int kIoThreads = 2;
// Beyond max_connections, this many clients get time to read the 503; further ones do not.
constexpr std::size_t kRefusedPatiently = 64;
constexpr Duration kRefusalPatience = std::chrono::seconds(1);
constexpr Duration kLastPatience = std::chrono::milliseconds(200);

// The allocator would otherwise keep the memory that a large body or an adapter took.
void give_memory_back() {
  ::malloc_trim(0);
}

}  // namespace

class HttpServer::Impl {
 public:
  Impl(HttpOptions options, HttpHandler& handler) : context_(std::move(options), handler) {
    context_.ended = [this](Connection& connection) { ended(connection); };
  }

  Status start() {
    TANDEM_ASSIGN(ListeningSocket socket,
                  ListeningSocket::open(context_.options.host, context_.options.port));
    is_ipv6_ = socket.is_ipv6();
    port_ = socket.port();
    try {
      listener_.emplace(
          std::move(socket), listener_strand_,
          [this](Descriptor accepted, bool last) { admit(std::move(accepted), last); });
      context_.quick.start(context_.options.worker_threads);
      context_.slow.start(1, give_memory_back);
      context_.bulk.start(1, give_memory_back);
      for (int i = 0; i < kIoThreads; ++i) io_threads_.emplace_back([this] { run(); });
    } catch (const std::system_error& failure) {
      const std::string text = failure_text(failure);
      stop();
      return error(StatusCode::unavailable, "the HTTP server cannot start: {}", text);
    }
    asio::post(listener_strand_, [this] { listener_->listen(); });
    return {};
  }

  // First new connections stop and every connection closes; then the threads run out of work.
  void stop() {
    const std::lock_guard once(stop_mutex_);
    std::vector<std::shared_ptr<Connection>> open;
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      for (const auto& [key, connection] : connections_) {
        if (auto alive = connection.lock()) open.push_back(std::move(alive));
      }
    }
    if (listener_) (void)post_surely(listener_strand_, memory_, [this] { listener_->stop(); });
    for (const auto& connection : open) connection->break_off();
    open.clear();
    context_.quick.stop();
    context_.slow.stop();
    context_.bulk.stop();
    work_.reset();
    for (std::thread& thread : io_threads_) thread.join();
    io_threads_.clear();
  }

  int port() const { return port_; }
  void close_after_response() { context_.closing = true; }

 private:
  void run() {
    for (;;) {
      try {
        io_.run();
        return;
      } catch (const std::exception& failure) {  // thrown by the loop itself
        try {
          log::warning("the HTTP server continues after an error: {}", failure.what());
        } catch (const std::exception&) {  // no memory for the log either
        }
      }
    }
  }

  void admit(Descriptor accepted, bool last) {
    const auto connection = std::make_shared<Connection>(asio::make_strand(io_),
                                                         std::move(accepted), is_ipv6_, context_);
    std::size_t count = 0;
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return;  // the connection is then closed
      connections_.emplace(connection.get(), connection);
      count = connections_.size();
    }
    const auto limit = static_cast<std::size_t>(context_.options.max_connections);
    if (count <= limit && !last) return connection->begin();
    connection->refuse(last                                 ? kLastPatience
                       : count <= limit + kRefusedPatiently ? kRefusalPatience
                                                            : Duration::zero());
  }

  void ended(Connection& connection) noexcept {
    {
      const std::lock_guard lock(mutex_);
      connections_.erase(&connection);
      if (stopping_) return;
    }
    try {
      asio::post(listener_strand_, WithMemory(memory_, [this] { listener_->resume(); }));
    } catch (const std::bad_alloc&) {  // the connection checks by itself a little later
    }
  }

  ConnectionContext context_;
  asio::io_context io_;
  std::optional<asio::executor_work_guard<asio::io_context::executor_type>> work_{
      io_.get_executor()};
  Strand listener_strand_ = asio::make_strand(io_);
  const std::shared_ptr<HandlerMemory> memory_ = std::make_shared<HandlerMemory>();
  std::optional<Listener> listener_;
  std::vector<std::thread> io_threads_;
  bool is_ipv6_ = false;
  int port_ = 0;
  std::mutex stop_mutex_;
  std::mutex mutex_;
  bool stopping_ = false;                                                   // guarded by mutex_
  std::unordered_map<Connection*, std::weak_ptr<Connection>> connections_;  // guarded by mutex_
};

HttpServer::HttpServer(HttpOptions options, HttpHandler& handler)
    : impl_(std::make_unique<Impl>(std::move(options), handler)) {}
HttpServer::~HttpServer() {
  stop();
}
Status HttpServer::start() {
  return impl_->start();
}
int HttpServer::port() const {
  return impl_->port();
}
void HttpServer::close_after_response() {
  impl_->close_after_response();
}
void HttpServer::stop() {
  impl_->stop();
}

}  // namespace tandem
