#pragma once

#include <exception>

#include "base/status.h"

namespace tandem {

// Copies a status even if there is no memory for its message: the copy's message is then "out of
// memory", which is short enough to need no allocation.
inline Status copy_of(const Status& status) noexcept {
  try {
    return status;
  } catch (const std::exception&) {
    return {status.code(), "out of memory"};
  }
}

}  // namespace tandem
