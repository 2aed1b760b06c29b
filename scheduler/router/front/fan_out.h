// One question to every engine that is up, and what they answer.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/http/client/http_client.h"
#include "base/http/http_message.h"
#include "scheduler/router/answer_channel.h"
#include "scheduler/router/router.h"

namespace tandem {

struct EngineAnswer {
  EngineIndex engine;
  std::string url;
  int status = 0;  // 0: none came; `body` says why
  std::string content_type;
  std::string body;

  bool ok() const { return status >= 200 && status < 300; }
};

using EngineAnswers = std::vector<EngineAnswer>;

struct FanOutTimes {
  Duration connect = std::chrono::seconds(2);
  Duration answer = std::chrono::seconds(5);
};

// Asks, from any thread. `heard` runs on the loop when all have answered or failed, `make` on a
// worker. No engine up: both get an empty list. The response is deferred.
HttpResponse ask_all(Router& router, CallRequest request, FanOutTimes times,
                     std::function<void(const EngineAnswers&)> heard,
                     std::function<HttpResponse(const EngineAnswers&)> make);

}  // namespace tandem
