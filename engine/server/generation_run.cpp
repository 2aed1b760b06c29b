#include "engine/server/generation_run.h"

#include <algorithm>
#include <chrono>
#include <optional>

namespace tandem {
namespace {

// How late a client's going may be noticed while nothing is generated.
constexpr Duration kWait = std::chrono::milliseconds(25);
// With several prompts the thread can sleep on one only; the others' news waits that long.
constexpr Duration kWaitAmongSeveral = std::chrono::milliseconds(3);

}  // namespace

Result<GenerationRun> GenerationRun::submit(GenerationService& service,
                                            std::vector<GenerationRequest> requests) {
  GenerationRun run;
  for (GenerationRequest& request : requests) {
    TANDEM_ASSIGN(auto generation, service.submit(std::move(request)));
    run.generations_.push_back(std::move(generation));
  }
  return run;
}

GenerationRun::End GenerationRun::run(const Take& take, const std::function<bool()>& client_gone) {
  const End end = run_until_end(take, client_gone);
  if (end != End::done) {
    for (const auto& generation : generations_) generation->cancel();
  }
  return end;
}

GenerationRun::End GenerationRun::run_until_end(const Take& take,
                                                const std::function<bool()>& client_gone) {
  const Duration wait = generations_.size() == 1 ? kWait : kWaitAmongSeveral;
  for (;;) {
    bool news = false;
    Generation* running = nullptr;
    std::size_t running_index = 0;
    for (std::size_t i = 0; i < generations_.size(); ++i) {
      while (auto delta = generations_[i]->next(Duration::zero())) {
        news = true;
        if (const auto end = judge(i, *delta, take)) return *end;
      }
      if (running == nullptr && !generations_[i]->done()) {
        running = generations_[i].get();
        running_index = i;
      }
    }
    if (running == nullptr) return End::done;
    if (client_gone()) return End::client_gone;
    if (news) continue;
    if (auto delta = running->next(wait)) {
      if (const auto end = judge(running_index, *delta, take)) return *end;
    }
  }
}

std::optional<GenerationRun::End> GenerationRun::judge(std::size_t prompt, OutputDelta& delta,
                                                       const Take& take) {
  if (delta.finish == FinishReason::failed) {
    error_ = delta.error.ok() ? Status(StatusCode::internal, "the engine gave no reason")
                              : std::move(delta.error);
    return End::failed;
  }
  if (delta.finish == FinishReason::cancelled) {
    error_ = Status(StatusCode::cancelled, "cancelled by the server");
    return End::failed;
  }
  if (!take(prompt, delta)) return End::client_gone;
  return std::nullopt;
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
