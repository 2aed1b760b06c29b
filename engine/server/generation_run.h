// The running generations of one call, one per prompt, read as one stream of news.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/status.h"
#include "engine/service/service.h"

namespace tandem {

// One thread. Destroying it cancels what still runs.
class GenerationRun {
 public:
  // All are submitted, or none runs.
  static Result<GenerationRun> submit(GenerationService& service,
                                      std::vector<GenerationRequest> requests);

  enum class End {
    done,
    client_gone,  // everything was cancelled
    failed,       // error() says why; everything was cancelled
  };
  using Take = std::function<bool(std::size_t prompt, OutputDelta& delta)>;
  // Reads until all is done. `take` gets each piece of news that is not a failure,
  // and says whether to go on (false: the client is gone). `client_gone` is asked every few
  // milliseconds while there is none.
  End run(const Take& take, const std::function<bool()>& client_gone);

  bool done() const;
  // Of each prompt's generation; final once done.
  std::vector<GenerationStats> stats() const;
  const Status& error() const { return error_; }

 private:
  End run_until_end(const Take& take, const std::function<bool()>& client_gone);
  std::optional<End> judge(std::size_t prompt, OutputDelta& delta, const Take& take);

  std::vector<std::unique_ptr<Generation>> generations_;
  Status error_;
};

}  // namespace tandem
