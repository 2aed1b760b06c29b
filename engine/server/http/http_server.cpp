#include "engine/server/http/http_server.h"

#include <fmt/format.h>
#include <httplib.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <future>
#include <set>
#include <type_traits>

#include "base/log.h"
#include "engine/server/http/client_socket.h"
#include "engine/server/http/connection_threads.h"

namespace tandem {
namespace {

constexpr std::size_t kMaxHeadBytes = 64U << 10;  // request line and headers together
constexpr int kListenBacklog = 1024;              // httplib's own is 5: bursts would be refused
constexpr int kRefusingThreads = 16;              // beyond max_connections, to say 503 properly
constexpr std::size_t kMaxLingerBytes = 256U << 20;
constexpr Duration kLinger = std::chrono::seconds(10);
constexpr Duration kRefusalLinger = std::chrono::seconds(1);
constexpr Duration kIdleThread = std::chrono::seconds(10);

// A connection, and what is known of the request it is at.
struct Connection {
  explicit Connection(int fd, Duration write_timeout) : socket(fd, write_timeout) {}

  ClientSocket socket;
  HttpRequest request;
  int refused = 0;        // status that the head alone earned
  bool answered = false;  // the response is ours, not httplib's
  bool must_close = false;
  bool unread_body = false;  // so the connection cannot go on, and must be closed with care
  bool can_chunk = true;     // HTTP/1.1
  bool in_head = true;
  std::size_t head_bytes = 0;
  std::shared_ptr<void> guard;  // the response's
};

// httplib's callbacks get no connection; the thread that serves it knows.
thread_local Connection* current = nullptr;
thread_local bool accepting_thread = false;

class ConnectionStream final : public httplib::Stream {
 public:
  explicit ConnectionStream(Connection& connection) : connection_(connection) {}

  bool is_readable() const override { return true; }
  bool is_writable() const override { return !connection_.socket.client_gone(); }
  ssize_t read(char* into, std::size_t size) override {
    if (connection_.in_head && connection_.head_bytes >= kMaxHeadBytes) {
      connection_.refused = 431;
      return -1;
    }
    const long count = connection_.socket.read(into, size);
    if (count > 0 && connection_.in_head) connection_.head_bytes += static_cast<std::size_t>(count);
    return count;
  }
  ssize_t write(const char* bytes, std::size_t size) override {
    return connection_.socket.write_all({bytes, size}) ? static_cast<ssize_t>(size) : -1;
  }
  void get_remote_ip_and_port(std::string& ip, int& port) const override {
    ip = connection_.socket.peer_address(&port);
  }
  void get_local_ip_and_port(std::string& ip, int& port) const override {
    ip.clear();
    port = 0;
  }
  socket_t socket() const override { return connection_.socket.fd(); }

 private:
  Connection& connection_;
};

class SinkWriter final : public BodyWriter {
 public:
  SinkWriter(httplib::DataSink& sink, Connection& connection)
      : sink_(sink), connection_(connection) {}
  bool write(std::string_view bytes) override {
    // An empty chunk would end the body.
    if (ok_ && !bytes.empty()) ok_ = sink_.write(bytes.data(), bytes.size());
    return ok_;
  }
  bool client_gone() override { return !ok_ || connection_.socket.client_gone(); }
  bool ok() const { return ok_; }

 private:
  httplib::DataSink& sink_;
  Connection& connection_;
  bool ok_ = true;
};

class Threads final : public httplib::TaskQueue {
 public:
  explicit Threads(int max_threads) : threads_(max_threads, kIdleThread) {}

  // Void up to some release of httplib, bool (accepted) after it.
  using Enqueued =
      decltype(std::declval<httplib::TaskQueue&>().enqueue(std::declval<std::function<void()>>()));
  Enqueued enqueue(std::function<void()> job) override {
    if (!threads_.run(job)) {
      accepting_thread = true;
      job();
      accepting_thread = false;
    }
    return Enqueued(true);
  }
  void shutdown() override { threads_.shutdown(); }

 private:
  ConnectionThreads threads_;
};

std::string lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; });
  return text;
}

// Tells the body's declared length: 0 when there is none; nothing when it is not a number.
std::optional<std::uint64_t> declared_length(std::string_view text) {
  if (text.empty()) return 0;
  std::uint64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

class HttpServer::Impl final : public httplib::Server {
 public:
  Impl(HttpOptions options, HttpHandler& handler)
      : options_(std::move(options)), handler_(handler) {
    const auto with_body = [this](const httplib::Request&, httplib::Response& response,
                                  const httplib::ContentReader& reader) {
      respond(response, &reader);
    };
    const auto without_body = [this](const httplib::Request&, httplib::Response& response) {
      respond(response, nullptr);
    };
    // prepare() makes every path "/": routing is the handler's, and httplib's is by std::regex,
    // which recurses once per character.
    Get("/", without_body);
    Options("/", without_body);
    Delete("/", without_body);
    Post("/", with_body);
    Put("/", with_body);
    Patch("/", with_body);
    Delete("/", with_body);
    set_error_handler(HandlerWithResponse([this](const auto&, httplib::Response& response) {
      if (current->answered) return HandlerResponse::Unhandled;
      fill(response, handler_.refuse(current->refused != 0 ? current->refused : response.status,
                                     "this is not a valid HTTP request"));
      current->unread_body = true;
      return HandlerResponse::Handled;
    }));
    set_exception_handler([](const auto&, httplib::Response& response, const auto&) {
      // Our handlers do not throw, so this is httplib's own trouble with the request.
      response.status = 400;
    });
    set_expect_100_continue_handler([](const auto&, httplib::Response& response) {
      if (current->refused == 0) return 100;
      response.status = current->refused;
      return response.status;
    });
    // httplib's default is SO_REUSEPORT: two servers would share a port without knowing.
    set_socket_options([](socket_t fd) {
      const int on = 1;
      ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    });
    const auto seconds = std::chrono::ceil<std::chrono::seconds>(options_.keep_alive).count();
    set_keep_alive_timeout(seconds);
    set_keep_alive_max_count(1000000);
  }

  Status start() {
    if (options_.port == 0) {
      port_ = bind_to_any_port(options_.host);
      if (port_ < 0) port_ = 0;
    } else if (bind_to_port(options_.host, options_.port)) {
      port_ = options_.port;
    }
    if (port_ == 0) {
      return error(StatusCode::unavailable,
                   "cannot listen on {}:{}: the address is not this machine's, or the port is "
                   "taken or not allowed; choose others with --host and --port",
                   options_.host, options_.port);
    }
    ::listen(svr_sock_, kListenBacklog);
    std::promise<void> accepting;
    new_task_queue = [this, &accepting] {
      auto* threads = new Threads(options_.max_connections + kRefusingThreads);
      accepting.set_value();
      return threads;
    };
    acceptor_ = std::thread([this] { listen_after_bind(); });
    accepting.get_future().wait();
    started_ = true;
    return {};
  }

  void shut_down() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      for (Connection* connection : connections_) connection->socket.interrupt();
    }
    const std::lock_guard lock(stop_mutex_);
    if (started_ && acceptor_.joinable()) {
      stop();
      acceptor_.join();
    }
  }

  int port() const { return port_; }
  void close_after_response() { closing_ = true; }

 private:
  bool process_and_close_socket(socket_t fd) override {
    Connection connection(fd, options_.client_timeout);
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return false;
      connections_.insert(&connection);
    }
    if (accepting_thread || num_connections() > options_.max_connections) {
      refuse_connection(connection);
    } else {
      current = &connection;
      serve(connection);
      current = nullptr;
    }
    const std::lock_guard lock(mutex_);
    connections_.erase(&connection);
    return true;
  }

  void serve(Connection& connection) {
    ConnectionStream stream(connection);
    while (!stopping_ && connection.socket.wait_readable(options_.keep_alive)) {
      begin(connection);
      bool closed = false;
      const bool ok = process_request(stream, closing_, closed, [&](httplib::Request& request) {
        prepare(connection, request);
      });
      connection.guard.reset();
      // A request line that never ends is the one refusal that httplib leaves unsaid.
      if (connection.in_head && connection.refused != 0 && !connection.unread_body) {
        write_refusal(connection, 414, "URI Too Long", "the request line is too long");
      }
      if (connection.unread_body || connection.refused != 0) {
        connection.socket.linger(kMaxLingerBytes, kLinger);
        return;
      }
      if (!ok || closed || connection.must_close || closing_) return;
    }
  }

  void begin(Connection& connection) {
    connection.request = {};
    connection.request.client_gone = [&connection] { return connection.socket.client_gone(); };
    connection.answered = false;
    connection.in_head = true;
    connection.head_bytes = 0;
    connection.socket.set_read_deadline(std::chrono::steady_clock::now() + options_.client_timeout);
  }

  // The head has been read. Takes it over, and leaves httplib what it shall know of it.
  void prepare(Connection& connection, httplib::Request& request) const {
    connection.in_head = false;
    connection.can_chunk = request.version != "HTTP/1.0";
    HttpRequest& ours = connection.request;
    ours.method = request.method;
    ours.path = request.path;
    for (const auto& [name, value] : request.headers) ours.headers.emplace(lower_case(name), value);
    const auto length = declared_length(ours.header("content-length"));
    const bool chunked = !ours.header("transfer-encoding").empty();
    const auto lengths = request.headers.equal_range("Content-Length");
    const bool one_length = std::all_of(lengths.first, lengths.second, [&](const auto& header) {
      return header.second == lengths.first->second;
    });
    if (!length || !one_length || (chunked && *length != 0)) {
      connection.refused = 400;  // two readers could disagree where the body ends
    } else if (*length > options_.max_body_bytes) {
      connection.refused = 413;
    }
    ours.has_body = chunked || (length && *length > 0);

    request.path.assign(1, '/');
    static const std::set<std::string> routed{"GET",  "HEAD", "OPTIONS", "DELETE",
                                              "POST", "PUT",  "PATCH"};
    if (!routed.contains(request.method)) request.method = "GET";
    request.ranges.clear();
    // Without these httplib neither compresses (which would hold tokens back), nor takes the body
    // for a form.
    request.headers.erase("Accept-Encoding");
    request.headers.erase("Content-Type");
    if (closing_ || connection.refused != 0) {
      request.headers.erase("Connection");
      request.headers.emplace("Connection", "close");
    }
  }

  void respond(httplib::Response& response, const httplib::ContentReader* reader) {
    Connection& connection = *current;
    HttpRequest& request = connection.request;
    connection.unread_body = request.has_body;  // until it has been read
    if (connection.refused != 0) {
      return send(response, handler_.refuse(connection.refused, refusal(connection.refused)));
    }
    if (auto early = handler_.screen(request)) {
      if (request.has_body && lower_case(std::string(request.header("connection"))) != "close") {
        early->headers.emplace_back("Connection", "close");
      }
      return send(response, std::move(*early));
    }
    if (request.has_body && reader != nullptr) {
      bool too_long = false;
      const bool complete = (*reader)([&](const char* bytes, std::size_t size) {
        too_long = size > options_.max_body_bytes - request.body.size();
        if (!too_long) request.body.append(bytes, size);
        return !too_long;
      });
      if (!complete) {
        const int status = too_long ? 413 : response.status >= 400 ? response.status : 400;
        return send(response, handler_.refuse(status, refusal(status)));
      }
      connection.unread_body = false;
    }
    send(response, handler_.handle(request));
  }

  std::string refusal(int status) const {
    switch (status) {
      case 413:
        return fmt::format("the body is longer than {} bytes", options_.max_body_bytes);
      case 415:
        return "the body's content-encoding is not supported; send it plain or by gzip";
      default:
        return "the body cannot be read: it ended early, came too slowly, or its "
               "Content-Length or Transfer-Encoding is malformed";
    }
  }

  static void fill(httplib::Response& response, const HttpResponse& ours) {
    response.status = ours.status;
    for (const auto& [name, value] : ours.headers) response.set_header(name, value);
    response.set_content(ours.body, ours.content_type);
  }

  static void send(httplib::Response& response, HttpResponse ours) {
    Connection& connection = *current;
    connection.answered = true;
    connection.guard = std::move(ours.guard);
    if (!ours.stream) return fill(response, ours);
    response.status = ours.status;
    for (const auto& [name, value] : ours.headers) response.set_header(name, value);
    const auto provide = [stream = std::move(ours.stream), &connection](std::size_t,
                                                                        httplib::DataSink& sink) {
      SinkWriter writer(sink, connection);
      stream(writer);
      if (writer.ok()) sink.done();
      connection.must_close |= !writer.ok();
      return writer.ok();
    };
    if (connection.can_chunk) {
      response.set_chunked_content_provider(ours.content_type, provide);
    } else {
      connection.must_close = true;  // which is how such a body ends
      response.set_content_provider(ours.content_type, provide);
    }
  }

  void refuse_connection(Connection& connection) {
    write_refusal(connection, 503, "Service Unavailable", "too many connections; try again later");
    // The accepting thread has no time for manners: others wait.
    if (!accepting_thread) connection.socket.linger(kMaxLingerBytes, kRefusalLinger);
  }

  // Past httplib, which has not taken up the request.
  void write_refusal(Connection& connection, int status, const char* name, const char* reason) {
    const HttpResponse response = handler_.refuse(status, reason);
    std::string head = fmt::format("HTTP/1.1 {} {}\r\nConnection: close\r\n", status, name);
    for (const auto& [key, value] : response.headers) head += fmt::format("{}: {}\r\n", key, value);
    connection.socket.write_all(fmt::format("{}Content-Type: {}\r\nContent-Length: {}\r\n\r\n{}",
                                            head, response.content_type, response.body.size(),
                                            response.body));
  }

  int num_connections() {
    const std::lock_guard lock(mutex_);
    return static_cast<int>(connections_.size());
  }

  const HttpOptions options_;
  HttpHandler& handler_;
  int port_ = 0;
  std::atomic<bool> started_ = false;
  std::atomic<bool> stopping_ = false;
  std::atomic<bool> closing_ = false;
  std::thread acceptor_;
  std::mutex stop_mutex_;
  std::mutex mutex_;
  std::set<Connection*> connections_;  // guarded by mutex_
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
  impl_->shut_down();
}

}  // namespace tandem
