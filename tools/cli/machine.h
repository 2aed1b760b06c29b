// The resources that this process may use, for defaults and for the reports of benchmarks.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tandem {

std::string cpu_name();  // "Intel(R) Xeon(R) ..."; "unknown" without /proc/cpuinfo
// Reads "0-3,8". An unusable core, a repeated one and any other text are errors, which name
// `setting`.
Result<std::vector<int>> parse_cpus(const std::string& text, std::string_view setting = "cpus");
// As above, but for any machine: checked against `usable`, which is in rising order.
Result<std::vector<int>> parse_cpus(const std::string& text, std::string_view setting,
                                    const std::vector<int>& usable);
std::size_t resident_bytes();  // memory of this process that is resident now
// Raises the number of files this process may have open to `wanted` if it is lower, as far as the
// hard limit allows. Returns the new number.
std::size_t allow_open_files(std::size_t wanted);

}  // namespace tandem
