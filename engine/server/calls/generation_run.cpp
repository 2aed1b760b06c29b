#include "engine/server/calls/generation_run.h"

#include <algorithm>
#include <deque>
#include <mutex>
#include <utility>

namespace tandem {

// Which prompts have news: a call may have hundreds, and most news is of one.
class GenerationRun::Told {
 public:
  void start(std::size_t num_prompts, std::function<void()> tell) {
    listed_.assign(num_prompts, false);
    tell_ = std::move(tell);
  }
  void add(std::size_t prompt) {
    {
      const std::lock_guard lock(mutex_);
      if (listed_[prompt]) return;
      listed_[prompt] = true;
      prompts_.push_back(prompt);
    }
    tell_();
  }
  std::optional<std::size_t> take() {
    const std::lock_guard lock(mutex_);
    if (prompts_.empty()) return std::nullopt;
    const std::size_t prompt = prompts_.front();
    prompts_.pop_front();
    listed_[prompt] = false;  // before its news is read: what comes meanwhile lists it again
    return prompt;
  }

 private:
  std::function<void()> tell_;
  std::mutex mutex_;
  std::deque<std::size_t> prompts_;  // guarded by mutex_
  std::vector<bool> listed_;         // guarded by mutex_
};

GenerationRun::GenerationRun() : told_(std::make_shared<Told>()) {}
GenerationRun::GenerationRun(GenerationRun&&) noexcept = default;
GenerationRun& GenerationRun::operator=(GenerationRun&&) noexcept = default;
GenerationRun::~GenerationRun() = default;

Result<GenerationRun> GenerationRun::submit(GenerationService& service,
                                            std::vector<GenerationRequest> requests) {
  GenerationRun run;
  for (GenerationRequest& request : requests) {
    TANDEM_ASSIGN(auto generation, service.submit(std::move(request)));
    run.generations_.push_back(std::move(generation));
  }
  return run;
}

void GenerationRun::on_news(std::function<void()> tell) {
  told_->start(generations_.size(), std::move(tell));
  for (std::size_t i = 0; i < generations_.size(); ++i) {
    generations_[i]->on_news([told = told_, i] { told->add(i); });
  }
}

std::optional<GenerationRun::News> GenerationRun::next() {
  while (!failed()) {
    if (!reading_) reading_ = told_->take();
    if (!reading_) return std::nullopt;
    auto delta = generations_[*reading_]->next(Duration::zero());
    if (!delta) {
      reading_.reset();
      continue;
    }
    if (delta->finish != FinishReason::failed && delta->finish != FinishReason::cancelled) {
      return News{*reading_, std::move(*delta)};
    }
    fail(*delta);
  }
  return std::nullopt;
}

void GenerationRun::fail(OutputDelta& delta) {
  if (delta.finish == FinishReason::cancelled) {
    error_ = Status(StatusCode::cancelled, "cancelled by the server");
  } else if (delta.error.ok()) {
    error_ = Status(StatusCode::internal, "the engine gave no reason");
  } else {
    error_ = std::move(delta.error);
  }
  cancel();
}

void GenerationRun::cancel() {
  for (const auto& generation : generations_) generation->cancel();
}

bool GenerationRun::done() const {
  return std::all_of(generations_.begin(), generations_.end(),
                     [](const auto& generation) { return generation->done(); });
}

std::vector<GenerationStats> GenerationRun::stats() const {
  std::vector<GenerationStats> all;
  for (const auto& generation : generations_) all.push_back(generation->stats());
  return all;
}

}  // namespace tandem
