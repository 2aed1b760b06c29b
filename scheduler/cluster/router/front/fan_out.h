// Sends one request to every engine that is up, and collects the answers.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/http/client/http_client.h"
#include "base/http/http_message.h"
#include "scheduler/cluster/router/answer_channel.h"
#include "scheduler/cluster/router/router.h"

namespace tandem {

struct EngineAnswer {
  EngineIndex engine;
  std::string url;
  int status = 0;  // 0: no answer; `body` says why
  std::string content_type;
  std::string body;

  bool ok() const { return status >= 200 && status < 300; }
};

using EngineAnswers = std::vector<EngineAnswer>;

struct FanOutTimes {
  Duration connect = std::chrono::seconds(2);
  Duration answer = std::chrono::seconds(5);
};

// Callable from any thread. `heard` runs on the loop when all engines have answered or failed,
// `make` on a worker thread. Both get an empty list if no engine is up. The response is deferred.
HttpResponse ask_all(Router& router, CallRequest request, FanOutTimes times,
                     std::function<void(const EngineAnswers&)> heard,
                     std::function<HttpResponse(const EngineAnswers&)> make);

}  // namespace tandem
