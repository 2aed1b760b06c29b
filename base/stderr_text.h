// Last words on standard error, whose reader may have stopped; this must not block on it.
#pragma once

#include <string_view>

namespace tandem {

// Writes as much as standard error takes within `patience_ms`; the rest is lost. Uses no memory and
// no lock, so it works when everything else fails. Thread-safe.
void say_on_stderr(std::string_view text, int patience_ms = 0) noexcept;

}  // namespace tandem
