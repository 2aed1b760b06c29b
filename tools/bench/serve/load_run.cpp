#include "tools/bench/serve/load_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/http/client/http_client.h"
#include "tools/bench/serve/answer_reader.h"

namespace tandem {
namespace {

constexpr Duration kTick = std::chrono::milliseconds(100);
// Shorter than the time after which servers close an unused connection (uvicorn: 5 s), because a
// request on a connection that is just being closed would have to be sent again.
constexpr Duration kKeptFor = std::chrono::seconds(4);
constexpr std::size_t kMaxKept = 65'536;
constexpr std::size_t kMaxErrorBody = 4096;

class Run {
 public:
  Run(const LoadPlan& plan, const PromptMaker& maker, const LoadTarget& target,
      const LoadRunOptions& options, const std::function<bool(const LoadState&)>& tick)
      : plan_(plan),
        maker_(maker),
        target_(target),
        options_(options),
        tick_(tick),
        timeout_(duration_of(options.request_timeout_s)),
        due_(loop_, [this] { send_due(); }),
        ticker_(loop_, [this] { on_tick(); }) {
    request_.method = "POST";
    request_.target = target.prefix + options.path;
    request_.headers = target.headers;
    outcome_.records.resize(plan.requests.size());
    touched_.resize(plan.adapters.size(), false);
    for (std::size_t i = 0; i < plan.requests.size(); ++i) {
      outcome_.records[i].adapter = plan.requests[i].adapter;
      outcome_.records[i].due_s = plan.requests[i].due_s;
    }
  }

  LoadOutcome run() {
    prepare();
    begin_ = now();
    ticker_.start(kTick);
    loop_.post([this] { send_due(); });
    loop_.run();
    for (const RequestRecord& record : outcome_.records) {
      outcome_.duration_s = std::max(outcome_.duration_s, record.end_s);
    }
    if (outcome_.stopped) outcome_.duration_s = state_.elapsed_s;
    return std::move(outcome_);
  }

 private:
  // A running request.
  struct Stream final : CallEvents {
    Stream(Run& of, std::size_t at)
        : run(of), index(at), reader(of.options_.body.dialect, of.options_.keep_text) {}
    void on_head(const CallHead& head) override { status = head.status; }
    void on_bytes(std::string_view bytes) override {
      if (status == 200) reader.take(bytes, now());
      // An error answer describes the error in its beginning.
      if (body.size() < kMaxErrorBody && reader.answer().events == 0) {
        body += bytes.substr(0, kMaxErrorBody - body.size());
      }
    }
    void on_end(CallEnd end, std::string_view reason) override { run.ended(*this, end, reason); }

    Run& run;
    std::size_t index;
    AnswerReader reader;
    std::string body;
    int status = 0;
    std::unique_ptr<HttpCall> call;
  };

  static TimePoint now() { return std::chrono::steady_clock::now(); }
  double since_begin(TimePoint at) const { return seconds_between(begin_, at); }

  bool is_full() const {
    return options_.max_concurrency > 0 && state_.running >= options_.max_concurrency;
  }

  // Returns when the next request is due; nothing if the answers that it waits for have not all
  // come.
  std::optional<TimePoint> next_due() const {
    const PlannedRequest& planned = plan_.requests[next_];
    if (options_.burst_pause_s < 0) return begin_ + duration_of(planned.due_s);
    const bool begins = next_ == 0 || plan_.requests[next_ - 1].burst != planned.burst;
    if (!begins) return burst_begin_;
    if (next_ == 0) return begin_;
    if (state_.running > 0) return std::nullopt;
    return burst_end_ + duration_of(options_.burst_pause_s);
  }

  // Makes the next request's JSON ahead of time.
  void prepare() {
    if (next_ >= plan_.requests.size() || prepared_ == next_ + 1) return;
    prepared_ = next_ + 1;
    const PlannedRequest& planned = plan_.requests[next_];
    const std::string& model = planned.adapter == kBaseModel
                                   ? options_.model
                                   : plan_.adapters[static_cast<std::size_t>(planned.adapter)];
    request_.body = request_body(options_.body, model,
                                 plan_.prompts[static_cast<std::size_t>(planned.prompt)], maker_);
  }

  void send_due() {
    while (!over_ && next_ < plan_.requests.size() && !is_full()) {
      const std::optional<TimePoint> due = next_due();
      if (!due) return;
      const TimePoint at = now();
      if (*due > at) return due_.start(*due - at);
      const bool begins_burst =
          next_ == 0 || plan_.requests[next_ - 1].burst != plan_.requests[next_].burst;
      if (options_.burst_pause_s >= 0 && begins_burst) burst_begin_ = *due;
      // Without planned times, a request is due as soon as max_concurrency allows it.
      send(plan_.all_at_once && options_.burst_pause_s < 0 ? at : *due);
    }
  }

  void send(TimePoint due) {
    prepare();
    RequestRecord& record = outcome_.records[next_];
    record.due_s = since_begin(due);
    if (record.adapter != kBaseModel) {
      const auto adapter = static_cast<std::size_t>(record.adapter);
      record.first_touch = !touched_[adapter];
      touched_[adapter] = true;
    }
    auto stream = std::make_unique<Stream>(*this, next_);
    ++next_;
    ++state_.sent;
    ++state_.running;
    const TimePoint at = now();
    record.sent_s = since_begin(at);
    deadlines_.emplace_back(at + timeout_, stream->index);
    stream->call = client_.call(target_.address, request_, {timeout_, timeout_, timeout_}, *stream);
    streams_[stream->index] = std::move(stream);
    prepare();
  }

  void ended(Stream& stream, CallEnd end, std::string_view reason) {
    const AnswerTimes& answer = stream.reader.answer();
    std::string error;
    if (stream.status != 0 && stream.status != 200) {
      error = fmt::format("HTTP {}: {}", stream.status, error_text(stream.body));
    } else if (!answer.mistake.empty()) {
      error = answer.mistake;
    } else if (end == CallEnd::late && !answer.finished) {
      error = too_late();
    } else if (end != CallEnd::complete && !answer.finished) {
      error = fmt::format("{}: {}", end_name(end), reason);
    } else if (answer.events == 0) {
      error = fmt::format("an answer without a token: {}", error_text(stream.body));
    } else if (!answer.finished) {
      error = "the stream ended before the answer did";
    }
    const RequestOutcome outcome = error.empty() ? RequestOutcome::ok : RequestOutcome::failed;
    close(stream, outcome, std::move(error));
  }

  std::string too_late() const {
    return fmt::format("no whole answer within {:g} s (--request-timeout)",
                       options_.request_timeout_s);
  }

  static const char* end_name(CallEnd end) {
    switch (end) {
      case CallEnd::unreachable:
        return "no connection";
      case CallEnd::broken:
        return "the connection broke";
      case CallEnd::malformed:
        return "that is no HTTP";
      case CallEnd::late:
      case CallEnd::complete:
        break;
    }
    return "";
  }

  void close(Stream& stream, RequestOutcome outcome, std::string error) {
    RequestRecord& record = outcome_.records[stream.index];
    AnswerTimes answer = stream.reader.take_answer();
    const std::int64_t planned =
        plan_.prompts[static_cast<std::size_t>(plan_.requests[stream.index].prompt)].prompt_tokens;
    record.outcome = outcome;
    record.error = std::move(error);
    record.end_s = since_begin(now());
    if (answer.events > 0) {
      record.first_s = since_begin(answer.first);
      record.last_s = since_begin(answer.last);
    }
    record.gaps_ms = std::move(answer.gaps_ms);
    record.prompt_tokens = answer.prompt_tokens >= 0 ? answer.prompt_tokens : planned;
    record.output_tokens = answer.output_tokens >= 0 ? answer.output_tokens : answer.events;
    record.adapter_tier = std::move(answer.adapter_tier);
    record.text = std::move(answer.text);
    --state_.running;
    if (outcome == RequestOutcome::ok) {
      ++state_.completed;
      state_.output_tokens += record.output_tokens;
      state_.last_ttft_ms = (record.first_s - record.due_s) * 1e3;
    } else {
      ++state_.failed;
    }
    burst_end_ = now();
    // Posted, because `stream` is the caller here and must not be destroyed yet.
    ended_.push_back(stream.index);
    if (ended_.size() == 1) loop_.post([this] { after_ends(); });
  }

  void after_ends() {
    for (const std::size_t index : ended_) streams_.erase(index);
    ended_.clear();
    if (over_ || (next_ == plan_.requests.size() && state_.running == 0)) return stop();
    send_due();
  }

  void on_tick() {
    const TimePoint at = now();
    for (; !deadlines_.empty() && deadlines_.front().first <= at; deadlines_.pop_front()) {
      const auto found = streams_.find(deadlines_.front().second);
      if (found == streams_.end() || found->second->call == nullptr) continue;
      Stream& stream = *found->second;
      if (outcome_.records[stream.index].outcome != RequestOutcome::unsent) continue;
      stream.call.reset();
      close(stream, RequestOutcome::failed, too_late());
    }
    // Drops the deadlines of streams that have ended.
    while (!deadlines_.empty() && !streams_.contains(deadlines_.front().second)) {
      deadlines_.pop_front();
    }
    state_.elapsed_s = since_begin(at);
    if (!tick_(state_)) return give_up();
    ticker_.start(kTick);
  }

  void give_up() {
    over_ = true;
    outcome_.stopped = true;
    for (const auto& [index, stream] : streams_) {
      stream->call.reset();
      RequestRecord& record = outcome_.records[index];
      if (record.outcome != RequestOutcome::unsent) continue;
      record.outcome = RequestOutcome::interrupted;
      record.end_s = since_begin(now());
    }
    stop();
  }

  void stop() {
    over_ = true;
    state_.elapsed_s = since_begin(now());
    (void)tick_(state_);
    loop_.stop();
  }

  const LoadPlan& plan_;
  const PromptMaker& maker_;
  const LoadTarget& target_;
  const LoadRunOptions& options_;
  const std::function<bool(const LoadState&)>& tick_;
  const Duration timeout_;
  EventLoop loop_;
  HttpClient client_{loop_, kMaxKept, kKeptFor};
  LoopTimer due_;
  LoopTimer ticker_;
  CallRequest request_;
  std::size_t prepared_ = 0;  // one more than the index of the request whose body is ready
  std::size_t next_ = 0;      // index of the next request to send
  bool over_ = false;
  TimePoint begin_{};
  TimePoint burst_begin_{};
  TimePoint burst_end_{};  // time of the last answer
  LoadState state_;
  LoadOutcome outcome_;
  std::vector<bool> touched_;  // by adapter: it had a request
  std::unordered_map<std::size_t, std::unique_ptr<Stream>> streams_;
  std::vector<std::size_t> ended_;
  std::deque<std::pair<TimePoint, std::size_t>> deadlines_;  // in sending order
};

}  // namespace

LoadOutcome run_load(const LoadPlan& plan, const PromptMaker& maker, const LoadTarget& target,
                     const LoadRunOptions& options,
                     const std::function<bool(const LoadState&)>& tick) {
  if (plan.requests.empty()) return {};
  return Run(plan, maker, target, options, tick).run();
}

}  // namespace tandem
