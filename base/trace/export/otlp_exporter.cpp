#include "base/trace/export/otlp_exporter.h"

#include <algorithm>
#include <condition_variable>
#include <iterator>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/http/client/http_client.h"
#include "base/log/log.h"
#include "base/trace/tracer.h"

namespace tandem {
namespace {

constexpr const char* kPath = "/v1/traces";
// The usual ports of a collector.
constexpr int kGrpcPort = 4317;
constexpr int kHttpPort = 4318;

// The statuses after which the specification asks a client to retry; others would fail again.
bool is_passing(int status) {
  return status == 429 || status == 502 || status == 503 || status == 504;
}

}  // namespace

// Everything but add() and the constructor runs on the loop's thread.
class OtlpExporter::Sender final : public CallEvents {
 public:
  Sender(HttpAddress address, OtlpSource source, const OtlpOptions& options)
      : address_(std::move(address)),
        source_(std::move(source)),
        options_(options),
        client_(loop_, 1),
        timer_(loop_,
               [this] {
                 is_waiting_ = false;
                 send();
               }),
        thread_([this] { loop_.run(); }) {}

  ~Sender() override {
    loop_.post([this] {
      ending_ = true;
      if (call_ == nullptr) send();
    });
    {
      std::unique_lock lock(mutex_);
      ended_.wait_for(lock, options_.last_patience, [this] { return is_done_; });
      drop(waiting_.size());
    }
    loop_.stop();
    thread_.join();
    timer_.cancel();
    call_.reset();
    drop(batch_.size());
  }
  Sender(const Sender&) = delete;
  Sender& operator=(const Sender&) = delete;

  void add(std::span<const Span> spans) {
    std::size_t added = 0;
    bool is_first = false;
    {
      const std::lock_guard lock(mutex_);
      is_first = waiting_.empty();
      waiting_.reserve(std::min(options_.max_queue, waiting_.size() + spans.size()));
      for (const Span& span : spans) {
        if (!span.context.valid() || !span.context.sampled) continue;
        if (waiting_.size() == options_.max_queue) {
          drop(1);
          continue;
        }
        waiting_.push_back(span);
        ++added;
      }
      if (added == 0) return;
      is_first = is_first || waiting_.size() >= options_.max_batch;
    }
    if (is_first) loop_.post([this] { wait(Duration::zero()); });
  }

 private:
  static void drop(std::size_t spans) {
    trace::counts().not_exported.fetch_add(spans, std::memory_order_relaxed);
  }

  // Waits for a full batch, or until `pause` is over.
  void wait(Duration pause) {
    if (call_ != nullptr || (is_waiting_ && pause == Duration::zero() && !is_full())) return;
    if (pauses_ && pause == Duration::zero()) return;
    pauses_ = pause > Duration::zero();
    is_waiting_ = true;
    timer_.start(pauses_ ? pause : is_full() ? Duration::zero() : options_.linger);
  }

  bool is_full() {
    const std::lock_guard lock(mutex_);
    return waiting_.size() >= options_.max_batch;
  }

  void send() {
    if (call_ != nullptr) return;  // the timer fired after the end had started a call
    pauses_ = false;
    if (batch_.empty()) take_batch();
    if (batch_.empty() || (ending_ && failures_ > 0)) return done();
    CallRequest request;
    request.method = "POST";
    request.target = kPath;
    request.body = otlp_json(source_, batch_);
    status_ = 0;
    call_ = client_.call(address_, request,
                         {.connect = options_.connect_timeout,
                          .first_byte = options_.answer_timeout,
                          .between = options_.answer_timeout},
                         *this);
  }

  void take_batch() {
    const std::lock_guard lock(mutex_);
    const std::size_t count = std::min(waiting_.size(), options_.max_batch);
    const auto end = waiting_.begin() + static_cast<std::ptrdiff_t>(count);
    batch_.assign(waiting_.begin(), end);
    waiting_.erase(waiting_.begin(), end);
  }

  void on_head(const CallHead& head) override { status_ = head.status; }
  void on_bytes(std::string_view) override {}  // the response's body is for people
  void on_end(CallEnd end, std::string_view reason) override {
    // Destroyed later, because the call is running this code.
    loop_.post([call = std::shared_ptr<HttpCall>(std::move(call_))] {});
    call_.reset();
    if (end == CallEnd::complete && status_ >= 200 && status_ < 300) {
      trace::counts().exported.fetch_add(batch_.size(), std::memory_order_relaxed);
      if (std::exchange(failures_, 0) > 0) log::info("{} accepts spans again", address_.text());
      batch_.clear();
      if (ending_) return send();
      return go_on();
    }
    const bool again = end != CallEnd::complete || is_passing(status_);
    if (failures_++ == 0) {
      log::warning(
          "{} does not accept spans: {}", address_.text(),
          end == CallEnd::complete ? fmt::format("it answered {}", status_) : std::string(reason));
    }
    if (!again) {
      drop(batch_.size());
      batch_.clear();
    }
    if (ending_) return done();
    const int doublings = std::min(failures_ - 1, 16);
    wait(std::min(options_.last_pause, options_.first_pause * (1 << doublings)));
  }

  void go_on() {
    bool is_empty = false;
    {
      const std::lock_guard lock(mutex_);
      is_empty = waiting_.empty();
    }
    if (!is_empty) wait(Duration::zero());
  }

  void done() {
    if (!ending_) return;
    const std::lock_guard lock(mutex_);
    is_done_ = true;
    ended_.notify_all();
  }

  const HttpAddress address_;
  const OtlpSource source_;
  const OtlpOptions options_;
  std::mutex mutex_;
  std::condition_variable ended_;
  std::vector<Span> waiting_;  // guarded by mutex_
  bool is_done_ = false;       // guarded by mutex_
  EventLoop loop_;
  HttpClient client_;
  LoopTimer timer_;
  std::vector<Span> batch_;  // in flight, or to be sent again
  std::unique_ptr<HttpCall> call_;
  int status_ = 0;
  int failures_ = 0;  // consecutive
  bool is_waiting_ = false;
  bool pauses_ = false;  // waits after a failure
  bool ending_ = false;
  std::thread thread_;
};

OtlpExporter::OtlpExporter(std::unique_ptr<Sender> sender) : sender_(std::move(sender)) {}
OtlpExporter::~OtlpExporter() = default;

Result<std::unique_ptr<OtlpExporter>> OtlpExporter::create(std::string_view endpoint,
                                                           OtlpSource source,
                                                           const OtlpOptions& options) {
  TANDEM_ASSIGN(HttpAddress address, HttpAddress::parse(endpoint));
  if (address.port == kGrpcPort) {
    log::warning(
        "otlp_endpoint: port {} usually takes OTLP over gRPC; Tandem sends it over HTTP, "
        "usually to port {}",
        kGrpcPort, kHttpPort);
  }
  log::info("spans go to {}{}", address.text(), kPath);
  return std::unique_ptr<OtlpExporter>(
      new OtlpExporter(std::make_unique<Sender>(std::move(address), std::move(source), options)));
}

void OtlpExporter::add(std::span<const Span> spans) {
  sender_->add(spans);
}

}  // namespace tandem
