// Last words on standard error: whoever reads it may have stopped to, and nobody waits for that.
#pragma once

#include <string_view>

namespace tandem {

// Writes what standard error takes within `patience_ms`; the rest is lost. Takes no memory and no
// lock, so that it serves where all else fails. Thread-safe.
void say_on_stderr(std::string_view text, int patience_ms = 0) noexcept;

}  // namespace tandem
