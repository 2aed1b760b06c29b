#include "engine/server/answer/generation_run.h"

#include <algorithm>
#include <mutex>
#include <utility>

namespace tandem {

// The queue of prompts that have new deltas. A call may have hundreds of prompts, and most deltas
// are for one of them. The engine's thread adds entries, which must not fail, so the list has room
// for all prompts from the start.
class GenerationRun::Told {
 public:
  void start(std::size_t num_prompts, std::function<void()> tell) {
    listed_.assign(num_prompts, false);
    prompts_.resize(num_prompts);
    tell_ = std::move(tell);
  }
  void add(std::size_t prompt) {
    {
      const std::lock_guard lock(mutex_);
      if (listed_[prompt]) return;
      listed_[prompt] = true;
      prompts_[(first_ + count_++) % prompts_.size()] = prompt;
    }
    tell_();
  }
  std::optional<std::size_t> take() {
    const std::lock_guard lock(mutex_);
    if (count_ == 0) return std::nullopt;
    const std::size_t prompt = prompts_[first_];
    first_ = (first_ + 1) % prompts_.size();
    --count_;
    listed_[prompt] = false;  // before the read: a delta that arrives meanwhile lists it again
    return prompt;
  }

 private:
  std::function<void()> tell_;
  std::mutex mutex_;
  std::vector<std::size_t> prompts_;  // ring of count_ from first_; mutex_ guards it and all below
  std::size_t first_ = 0;
  std::size_t count_ = 0;
  std::vector<bool> listed_;
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
    retry_after_s_ = delta.retry_after_s;
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
