#include "scheduler/cluster/router/front/fan_out.h"

#include <chrono>
#include <utility>

#include "base/clock.h"

namespace tandem {
namespace {

constexpr std::size_t kMaxAnswerBytes = 64U << 20;

// Runs on the loop, from begin() on.
class FanOut {
 public:
  FanOut(Router& router, CallRequest request, FanOutTimes times,
         std::function<void(const EngineAnswers&)> heard,
         std::function<HttpResponse(const EngineAnswers&)> make,
         std::shared_ptr<AnswerChannel> channel)
      : router_(router),
        request_(std::move(request)),
        times_(times),
        heard_(std::move(heard)),
        make_(std::move(make)),
        channel_(std::move(channel)) {}

  void begin() {
    const auto& engines = router_.cluster().engines();
    for (std::size_t i = 0; i < engines.size(); ++i) {
      if (!engines[i].up) continue;
      EngineAnswer& answer = answers_.emplace_back();
      answer.engine = EngineIndex(static_cast<std::int32_t>(i));
      answer.url = engines[i].address.text();
    }
    missing_ = answers_.size();
    for (std::size_t i = 0; i < answers_.size(); ++i) {
      const HttpAddress& address = engines[answers_[i].engine.index()].address;
      asked_.push_back(std::make_unique<One>(*this, i));
      asked_.back()->call = router_.client().call(
          address, request_,
          {.connect = times_.connect, .first_byte = times_.answer, .between = times_.answer},
          *asked_.back());
    }
    if (missing_ == 0) finish();
  }
  void drop() { router_.let_go(this); }

 private:
  struct One final : CallEvents {
    One(FanOut& whole, std::size_t place) : fan_out(whole), index(place) {}
    EngineAnswer& answer() const { return fan_out.answers_[index]; }

    void on_head(const CallHead& head) override {
      answer().status = head.status;
      answer().content_type = head.header("content-type");
    }
    void on_bytes(std::string_view bytes) override {
      const bool late = std::chrono::steady_clock::now() - begun > fan_out.times_.answer;
      if (late || answer().body.size() + bytes.size() > kMaxAnswerBytes) {
        call.reset();
        return fail(late ? "its answer took too long" : "its answer is too long");
      }
      answer().body += bytes;
    }
    void on_end(CallEnd end, std::string_view reason) override {
      if (end != CallEnd::complete) return fail(std::string(reason));
      fan_out.one_ended();
    }
    void fail(std::string why) {
      answer().status = 0;
      answer().body = std::move(why);
      fan_out.one_ended();
    }

    FanOut& fan_out;
    const std::size_t index;
    const TimePoint begun = std::chrono::steady_clock::now();
    std::unique_ptr<HttpCall> call;
  };

  void one_ended() {
    if (--missing_ == 0) finish();
  }

  void finish() {
    if (heard_) heard_(answers_);
    channel_->answer([answers = std::make_shared<EngineAnswers>(std::move(answers_)),
                      make = std::move(make_)] { return make(*answers); });
    router_.let_go(this);
  }

  Router& router_;
  const CallRequest request_;
  const FanOutTimes times_;
  const std::function<void(const EngineAnswers&)> heard_;
  std::function<HttpResponse(const EngineAnswers&)> make_;
  const std::shared_ptr<AnswerChannel> channel_;
  EngineAnswers answers_;
  std::vector<std::unique_ptr<One>> asked_;
  std::size_t missing_ = 0;
};

}  // namespace

HttpResponse ask_all(Router& router, CallRequest request, FanOutTimes times,
                     std::function<void(const EngineAnswers&)> heard,
                     std::function<HttpResponse(const EngineAnswers&)> make) {
  const auto channel = std::make_shared<AnswerChannel>();
  if (!router.api_key().empty()) {
    request.headers.emplace_back("Authorization", "Bearer " + router.api_key());
  }
  const auto job = std::make_shared<FanOut>(router, std::move(request), times, std::move(heard),
                                            std::move(make), channel);
  channel->on_gone([&router, weak = std::weak_ptr<FanOut>(job)] {
    router.post([weak] {
      if (const auto alive = weak.lock()) alive->drop();
    });
  });
  router.post([&router, job] {
    router.keep(job);
    job->begin();
  });
  return AnswerChannel::defer(channel);
}

}  // namespace tandem
