#include "tools/bench/serve/stub_server.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <condition_variable>
#include <csignal>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "base/http/http_server.h"
#include "base/http/sse.h"
#include "base/log/log.h"
#include "tools/cli/machine.h"

namespace tandem {
namespace {

constexpr Duration kStubPatience = std::chrono::minutes(10);
constexpr int kMaxStubConnections = 60'000;
constexpr std::size_t kOtherStubFiles = 64;

TimePoint stub_now() {
  return std::chrono::steady_clock::now();
}

// Runs delayed calls at their times, on a thread of its own.
class DelayLine {
 public:
  using Key = std::pair<TimePoint, const void*>;

  DelayLine() : thread_([this] { run(); }) {}
  ~DelayLine() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  DelayLine(const DelayLine&) = delete;
  DelayLine& operator=(const DelayLine&) = delete;

  void add(const Key& key, const std::function<void()>* wake) {
    const std::lock_guard lock(mutex_);
    const bool is_first = waiting_.empty() || key < waiting_.begin()->first;
    waiting_[key] = wake;
    if (is_first) changed_.notify_all();
  }
  // The call is not running and will not run when this returns.
  void remove(const Key& key) {
    const std::lock_guard lock(mutex_);
    waiting_.erase(key);
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (!over_) {
      if (waiting_.empty()) {
        changed_.wait(lock);
        continue;
      }
      const auto first = waiting_.begin();
      if (first->first.first > stub_now()) {
        changed_.wait_until(lock, TimePoint(first->first.first));
        continue;
      }
      const std::function<void()>* const wake = first->second;
      waiting_.erase(first);
      (*wake)();
    }
  }

  std::mutex mutex_;  // guards the rest
  std::condition_variable changed_;
  std::map<Key, const std::function<void()>*> waiting_;
  bool over_ = false;
  std::thread thread_;
};

struct StubNotes {
  std::mutex mutex;
  std::vector<StubServed> served;
};

class StubAnswer final : public BodySource {
 public:
  StubAnswer(DelayLine& line, StubNotes& notes, StubDelays delays, std::int64_t tokens)
      : line_(line), notes_(notes), delays_(delays), tokens_(tokens) {}
  ~StubAnswer() override {
    if (key_) line_.remove(*key_);
  }
  StubAnswer(const StubAnswer&) = delete;
  StubAnswer& operator=(const StubAnswer&) = delete;

  void on_ready(std::function<void()> wake) override { wake_ = std::move(wake); }

  Pull pull(std::string& out) override {
    while (told_ < tokens_) {
      const TimePoint due =
          begin_ + duration_of(delays_.ttft_s + delays_.tpot_s * static_cast<double>(told_));
      const TimePoint now = stub_now();
      if (now < due) {
        key_ = {due, this};
        line_.add(*key_, &wake_);
        return Pull::wait;
      }
      if (told_ == 0) served_.ttft_s = seconds_between(begin_, now);
      ++told_;
      out += fmt::format(
          "data: {{\"id\":\"cmpl-0\",\"object\":\"text_completion\",\"created\":1763800000,"
          "\"model\":\"stub\",\"choices\":[{{\"index\":0,\"text\":\" word\",\"logprobs\":null,"
          "\"finish_reason\":{}}}]}}\n\n",
          told_ == tokens_ ? "\"length\"" : "null");
    }
    out += fmt::format(
        "data: {{\"id\":\"cmpl-0\",\"object\":\"text_completion\",\"created\":1763800000,"
        "\"model\":\"stub\",\"choices\":[],\"usage\":{{\"prompt_tokens\":1,"
        "\"completion_tokens\":{0},\"total_tokens\":{0}}}}}\n\n",
        tokens_);
    out += kSseDone;
    served_.e2el_s = seconds_between(begin_, stub_now());
    const std::lock_guard lock(notes_.mutex);
    notes_.served.push_back(served_);
    return Pull::end;
  }

 private:
  DelayLine& line_;
  StubNotes& notes_;
  const StubDelays delays_;
  const std::int64_t tokens_;
  const TimePoint begin_ = stub_now();
  std::int64_t told_ = 0;
  StubServed served_;
  std::function<void()> wake_;
  std::optional<DelayLine::Key> key_;
};

// Reads the number after one of two names, without a JSON parser, which would take longer than the
// rest.
std::int64_t tokens_asked(std::string_view body) {
  for (const std::string_view name : {"\"max_tokens\":", "\"max_completion_tokens\":"}) {
    const std::size_t at = body.find(name);
    if (at == std::string_view::npos) continue;
    const std::string_view digits = body.substr(at + name.size());
    std::int64_t tokens = 1;
    std::from_chars(digits.data(), digits.data() + digits.size(), tokens);
    return std::max<std::int64_t>(tokens, 1);
  }
  return 16;
}

HttpOptions stub_server_options() {
  HttpOptions options;
  options.host = "127.0.0.1";
  options.max_body_bytes = std::size_t{64} << 20;
  options.max_connections = kMaxStubConnections;
  options.keep_alive = kStubPatience;
  options.client_timeout = kStubPatience;
  options.worker_threads = 1;
  return options;
}

}  // namespace

class StubServer::Impl final : public HttpHandler {
 public:
  explicit Impl(std::function<StubDelays(std::int64_t)> delays) : delays_(std::move(delays)) {}
  ~Impl() override { server_.stop(); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  std::optional<HttpResponse> screen(const HttpRequest&) override { return std::nullopt; }
  HttpResponse handle(const HttpRequest& request) override {
    if (request.method == "GET") {
      HttpResponse list;
      list.body = R"({"object":"list","data":[{"id":"stub","object":"model","parent":null}]})";
      return list;
    }
    HttpResponse response = sse_response();
    const StubDelays delays = [&] {
      const std::lock_guard lock(mutex_);
      return delays_(next_++);
    }();
    response.source =
        std::make_unique<StubAnswer>(line_, notes_, delays, tokens_asked(request.body));
    return response;
  }
  HttpResponse refuse(int status, std::string_view) override {
    HttpResponse response;
    response.status = status;
    return response;
  }

  Status start() { return server_.start(); }
  int port() const { return server_.port(); }
  std::vector<StubServed> served() {
    const std::lock_guard lock(notes_.mutex);
    return notes_.served;
  }

 private:
  std::mutex mutex_;  // guards the next two
  std::function<StubDelays(std::int64_t)> delays_;
  std::int64_t next_ = 0;
  StubNotes notes_;
  DelayLine line_;
  HttpServer server_{stub_server_options(), *this};  // last member: its answers use the others
};

StubServer::StubServer(std::function<StubDelays(std::int64_t)> delays)
    : impl_(std::make_unique<Impl>(std::move(delays))) {}
StubServer::~StubServer() = default;

Status StubServer::start() {
  return impl_->start();
}
int StubServer::port() const {
  return impl_->port();
}
std::vector<StubServed> StubServer::served() const {
  return impl_->served();
}

Result<std::unique_ptr<StubProcess>> StubProcess::start(const StubDelays& delays) {
  std::array<int, 2> until{};
  std::array<int, 2> told{};
  if (::pipe(until.data()) != 0) return errno_status("pipe", errno);
  if (::pipe(told.data()) != 0) return errno_status("pipe", errno);
  const pid_t child = ::fork();
  if (child < 0) return errno_status("fork", errno);
  if (child == 0) {
    // Ctrl-C is for the parent; the child ends when the parent does.
    (void)std::signal(SIGINT, SIG_IGN);
    log::set_level(log::Level::off);
    (void)allow_open_files(kMaxStubConnections + kOtherStubFiles);
    ::close(until[1]);
    ::close(told[0]);
    {
      StubServer server([&](std::int64_t) { return delays; });
      const int port = server.start() ? server.port() : 0;
      (void)!::write(told[1], &port, sizeof port);
      char byte = 0;
      (void)!::read(until[0], &byte, 1);
    }
    ::_exit(0);
  }
  ::close(until[0]);
  ::close(told[1]);
  std::unique_ptr<StubProcess> made(new StubProcess);
  made->child_ = child;
  made->until_ = until[1];
  const bool read = ::read(told[0], &made->port_, sizeof made->port_) == sizeof made->port_;
  ::close(told[0]);
  if (!read || made->port_ == 0) return error(StatusCode::internal, "the stub does not start");
  return made;
}

StubProcess::~StubProcess() {
  ::close(until_);
  ::waitpid(child_, nullptr, 0);
}

}  // namespace tandem
