// What another process of the same user cuts off a shared file raises SIGBUS in whoever has it
// mapped. For ranges whose content is checked anyway, zeros in its place are no worse than an
// answer that never comes.
#pragma once

#include <cstddef>

namespace tandem {

// From now on a touch of a part of this mapping that its file no longer has finds fresh zeros,
// and a line on standard error says so, once. False: as many ranges as there may be are watched.
// Installs a handler for SIGBUS, which passes on what does not concern it. Thread-safe.
bool survive_truncation(void* begin, std::size_t bytes);
// Before it is unmapped. What is not watched is passed over.
void forget_truncation(void* begin);

}  // namespace tandem
