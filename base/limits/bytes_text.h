// Numbers of bytes as people read them.
#pragma once

#include <cstdint>
#include <string>

namespace tandem {

// "12 B", "3.4 MB", "1.2 GB": powers of ten.
std::string bytes_text(double bytes);

// A limit: "64 MiB" where it is a whole number of binary units, as limits are set; else as
// bytes_text().
std::string size_text(std::uint64_t bytes);

}  // namespace tandem
