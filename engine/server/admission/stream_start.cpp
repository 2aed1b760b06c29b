#include "engine/server/admission/stream_start.h"

#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "base/http/sse.h"

namespace tandem {
namespace {

// A source accepts one wake function for its life: this one, which forwards to the current reader.
class Waker {
 public:
  void set(std::function<void()> wake) {
    const std::lock_guard lock(mutex_);
    wake_ = std::move(wake);
  }
  void call() {
    const std::lock_guard lock(mutex_);
    if (wake_) wake_();
  }

 private:
  std::mutex mutex_;
  std::function<void()> wake_;  // guarded by mutex_, also while it is called
};

class StartedStream final : public BodySource {
 public:
  StartedStream(std::unique_ptr<StartingSource> source, std::shared_ptr<Waker> waker)
      : source_(std::move(source)), waker_(std::move(waker)) {}
  ~StartedStream() override { waker_->set(nullptr); }
  StartedStream(const StartedStream&) = delete;
  StartedStream& operator=(const StartedStream&) = delete;

  void on_ready(std::function<void()> wake) override { waker_->set(std::move(wake)); }
  Pull pull(std::string& out) override { return source_->pull(out); }
  std::string on_silence() override { return source_->on_silence(); }
  std::string_view filler() const override { return source_->filler(); }

 private:
  std::unique_ptr<StartingSource> source_;
  std::shared_ptr<Waker> waker_;
};

class StartingStream final : public DeferredResponse {
 public:
  explicit StartingStream(std::unique_ptr<StartingSource> source) : source_(std::move(source)) {}
  ~StartingStream() override {
    if (source_ != nullptr) waker_->set(nullptr);
  }
  StartingStream(const StartingStream&) = delete;
  StartingStream& operator=(const StartingStream&) = delete;

  void on_ready(std::function<void()> wake) override {
    waker_->set(std::move(wake));
    source_->on_ready([waker = waker_] { waker->call(); });
  }
  bool ready() override { return source_->has_started(); }
  HttpResponse take() override {
    // The reader that takes the stream sets its own wake function, and pulls before it waits.
    waker_->set(nullptr);
    if (const auto error = source_->refused()) return error_response(*error);
    HttpResponse response = sse_response();
    response.source = std::make_unique<StartedStream>(std::move(source_), waker_);
    return response;
  }

 private:
  std::unique_ptr<StartingSource> source_;  // null after it was taken
  std::shared_ptr<Waker> waker_ = std::make_shared<Waker>();
};

}  // namespace

HttpResponse answer_when_started(std::unique_ptr<StartingSource> source) {
  HttpResponse response;
  response.deferred = std::make_unique<StartingStream>(std::move(source));
  return response;
}

}  // namespace tandem
