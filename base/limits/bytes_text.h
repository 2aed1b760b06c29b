// Byte counts in human-readable form.
#pragma once

#include <cstdint>
#include <string>

namespace tandem {

// "12 B", "3.4 MB", "1.2 GB": powers of ten.
std::string bytes_text(double bytes);

// A limit: "64 MiB" if it is a whole number of binary units, as limits usually are; otherwise as
// bytes_text().
std::string size_text(std::uint64_t bytes);

}  // namespace tandem
