// The running generations of one call, one per prompt, read as one stream of news without waiting.
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

// One thread at a time. Destroying it cancels what still runs.
class GenerationRun {
 public:
  // All are submitted, or none runs.
  static Result<GenerationRun> submit(GenerationService& service,
                                      std::vector<GenerationRequest> requests);
  GenerationRun(GenerationRun&&) noexcept;
  GenerationRun& operator=(GenerationRun&&) noexcept;
  ~GenerationRun();

  // As Generation's; once, before reading.
  void on_news(std::function<void()> tell);

  struct News {
    std::size_t prompt = 0;
    OutputDelta delta;
  };
  // What has come and is not a failure; nothing: that was all for now. After a failure everything
  // is cancelled, and nothing comes.
  std::optional<News> next();

  bool failed() const { return !error_.ok(); }
  const Status& error() const { return error_; }
  // As OutputDelta's: 0 unless it failed by being given up.
  std::int32_t retry_after_s() const { return retry_after_s_; }
  // All has been read.
  bool done() const;
  // Of each prompt's generation; final once done.
  std::vector<GenerationStats> stats() const;
  void cancel();

 private:
  class Told;
  GenerationRun();
  void fail(OutputDelta& delta);

  std::shared_ptr<Told> told_;
  std::vector<std::unique_ptr<Generation>> generations_;
  std::optional<std::size_t> reading_;  // a prompt of which there may be more news
  Status error_;
  std::int32_t retry_after_s_ = 0;
};

}  // namespace tandem
