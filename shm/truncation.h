// When another process of the same user truncates a shared file, access to the missing part raises
// SIGBUS in every process that has it mapped. In ranges whose content is checked anyway, zeros in
// its place are no worse than a missing answer.
#pragma once

#include <cstddef>

namespace tandem {

// After this call, access to a part of this mapping that was cut off the file finds zeros, and one
// line on standard error reports it. Returns false if too many ranges are watched already. Installs
// a handler for SIGBUS, which passes on signals for other addresses. Thread-safe.
bool survive_truncation(void* begin, std::size_t bytes);
// Ends the watch of a range, before it is unmapped. Ignores a range that is not watched.
void forget_truncation(void* begin);

}  // namespace tandem
