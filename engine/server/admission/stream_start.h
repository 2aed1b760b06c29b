// A streamed answer that may still be refused: its head waits until that is known.
//
// A stream's status is its first line. Of a call with a deadline it is not known when the call is
// queued, as the waiting line may give it up; so the head goes out with the first words, and a call
// that is given up is an error with a status of its own.
#pragma once

#include <memory>
#include <optional>

#include "base/http/http_message.h"
#include "engine/server/messages/errors.h"

namespace tandem {

class StartingSource : public BodySource {
 public:
  // Takes in what has come. True: the first words are there, or it is known that none will come.
  virtual bool has_started() = 0;
  // Once, when has_started(): why there will be no words, if there will be none.
  virtual std::optional<ApiError> refused() = 0;
};

// `source` is woken from the first, and pulled when it has started.
HttpResponse answer_when_started(std::unique_ptr<StartingSource> source);

}  // namespace tandem
