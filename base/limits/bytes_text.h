// Numbers of bytes as people read them.
#pragma once

#include <string>

namespace tandem {

// "12 B", "3.4 MB", "1.2 GB": powers of ten.
std::string bytes_text(double bytes);

}  // namespace tandem
