#include "scheduler/cluster/router/answer_channel.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/http/sse.h"

namespace tandem {

class AnswerChannel::Stream final : public BodySource {
 public:
  explicit Stream(std::shared_ptr<AnswerChannel> channel) : channel_(std::move(channel)) {}
  ~Stream() override { channel_->drop(); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  void on_ready(std::function<void()> wake) override { channel_->on_ready(std::move(wake)); }
  Pull pull(std::string& out) override { return channel_->pull(out); }
  std::string on_silence() override { return channel_->silence(); }
  std::string_view filler() const override { return kSseComment; }

 private:
  std::shared_ptr<AnswerChannel> channel_;
};

class AnswerChannel::Deferred final : public DeferredResponse {
 public:
  explicit Deferred(std::shared_ptr<AnswerChannel> channel) : channel_(std::move(channel)) {}
  ~Deferred() override {
    if (channel_ != nullptr) channel_->drop();
  }
  Deferred(const Deferred&) = delete;
  Deferred& operator=(const Deferred&) = delete;

  void on_ready(std::function<void()> wake) override { channel_->on_ready(std::move(wake)); }
  bool ready() override { return channel_->ready(); }
  HttpResponse take() override {
    const auto channel = std::exchange(channel_, nullptr);
    channel->on_ready({});
    if (channel->make_) {
      HttpResponse response = channel->make_();
      channel->drop();
      return response;
    }
    HttpResponse response = sse_response();
    response.source = std::make_unique<Stream>(channel);
    return response;
  }

 private:
  std::shared_ptr<AnswerChannel> channel_;  // null: taken
};

HttpResponse AnswerChannel::defer(const std::shared_ptr<AnswerChannel>& channel) {
  HttpResponse response;
  response.deferred = std::make_unique<Deferred>(channel);
  return response;
}

void AnswerChannel::answer(Make make) {
  {
    const std::lock_guard lock(mutex_);
    TANDEM_CHECK(state_ == State::waiting, "a second answer");
    make_ = std::move(make);
    state_ = State::whole;
  }
  wake();
}

void AnswerChannel::begin_stream() {
  {
    const std::lock_guard lock(mutex_);
    TANDEM_CHECK(state_ == State::waiting, "a second answer");
    state_ = State::stream;
  }
  wake();
}

bool AnswerChannel::write(std::string_view bytes) {
  bool room = true;
  {
    const std::lock_guard lock(mutex_);
    if (dropped_ || state_ != State::stream) return true;
    waiting_ += bytes;
    room = waiting_.size() < kFullBytes;
    full_ = !room;
  }
  wake();
  return room;
}

void AnswerChannel::set_silence(std::string event) {
  const std::lock_guard lock(mutex_);
  silence_ = std::move(event);
}

std::string AnswerChannel::silence() {
  const std::lock_guard lock(mutex_);
  return state_ == State::stream ? silence_ : std::string();
}

void AnswerChannel::end(bool broken) {
  {
    const std::lock_guard lock(mutex_);
    if (state_ != State::stream) return;
    state_ = broken ? State::broken : State::ended;
  }
  wake();
}

void AnswerChannel::on_ready(std::function<void()> wake) {
  const std::lock_guard lock(wake_mutex_);
  wake_ = std::move(wake);
}

void AnswerChannel::wake() {
  // Called under the lock: once on_ready() has replaced the function, no call of it is running.
  const std::lock_guard lock(wake_mutex_);
  if (wake_) wake_();
}

bool AnswerChannel::ready() {
  const std::lock_guard lock(mutex_);
  return state_ != State::waiting;
}

BodySource::Pull AnswerChannel::pull(std::string& out) {
  BodySource::Pull pulled = BodySource::Pull::wait;
  bool drained = false;
  {
    const std::lock_guard lock(mutex_);
    out += waiting_;
    waiting_.clear();
    drained = std::exchange(full_, false);
    if (state_ == State::ended) pulled = BodySource::Pull::end;
    if (state_ == State::broken) pulled = BodySource::Pull::broken;
  }
  if (drained && drained_) drained_();
  return pulled;
}

void AnswerChannel::drop() {
  on_ready({});
  bool gone = false;
  {
    const std::lock_guard lock(mutex_);
    gone = !dropped_ && (state_ == State::waiting || state_ == State::stream);
    dropped_ = true;
    waiting_ = std::string();
  }
  if (gone && gone_) gone_();
}

}  // namespace tandem
