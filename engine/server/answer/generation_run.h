// The running generations of one call, one per prompt, read as one sequence of deltas without
// blocking.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/status.h"
#include "engine/service/service.h"

namespace tandem {

// Not thread-safe. Destroying it cancels what still runs.
class GenerationRun {
 public:
  // Submits all requests; if one fails, none runs.
  static Result<GenerationRun> submit(GenerationService& service,
                                      std::vector<GenerationRequest> requests);
  GenerationRun(GenerationRun&&) noexcept;
  GenerationRun& operator=(GenerationRun&&) noexcept;
  ~GenerationRun();

  // Like Generation::on_news; call it once, before reading.
  void on_news(std::function<void()> tell);

  struct News {
    std::size_t prompt = 0;
    OutputDelta delta;
  };
  // Returns the next delta unless it is a failure; nothing if there is none now. A failure cancels
  // everything, and nothing more is returned.
  std::optional<News> next();

  bool failed() const { return !error_.ok(); }
  const Status& error() const { return error_; }
  // Like OutputDelta::retry_after_s: 0 unless the call failed because it was given up.
  std::int32_t retry_after_s() const { return retry_after_s_; }
  // True when all deltas have been read.
  bool done() const;
  // Statistics of each prompt's generation; final when done().
  std::vector<GenerationStats> stats() const;
  void cancel();

 private:
  class Told;
  GenerationRun();
  void fail(OutputDelta& delta);

  std::shared_ptr<Told> told_;
  std::vector<std::unique_ptr<Generation>> generations_;
  std::optional<std::size_t> reading_;  // a prompt that may have more deltas
  Status error_;
  std::int32_t retry_after_s_ = 0;
};

}  // namespace tandem
