// A streamed answer that can still be refused: its head is delayed until the outcome is known.
//
// A stream's status is in its first line. A call with a deadline may be given up in the queue, so
// its status is unknown when it is queued. The head is therefore sent together with the first text,
// and a call that is given up is answered by an error with its own status.
#pragma once

#include <memory>
#include <optional>

#include "base/http/http_message.h"
#include "engine/server/messages/errors.h"

namespace tandem {

class StartingSource : public BodySource {
 public:
  // Processes what has arrived. True: the first text is there, or it is certain that none will
  // come.
  virtual bool has_started() = 0;
  // Called once, after has_started(): the error if there will be no text.
  virtual std::optional<ApiError> refused() = 0;
};

// Wakes `source` from the beginning, and pulls from it when it has started.
HttpResponse answer_when_started(std::unique_ptr<StartingSource> source);

}  // namespace tandem
