#pragma once

#include <exception>

#include "base/status.h"

namespace tandem {

// A copy, also where there is no memory for its message: that is then "out of memory", which is
// short enough to need none.
inline Status copy_of(const Status& status) noexcept {
  try {
    return status;
  } catch (const std::exception&) {
    return {status.code(), "out of memory"};
  }
}

}  // namespace tandem
