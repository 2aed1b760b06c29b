// What this process may use of the machine, for defaults and for the reports of benchmarks.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tandem {

std::string cpu_name();  // "Intel(R) Xeon(R) ..."; "unknown" without /proc/cpuinfo
// Reads "0-3,8"; an error, which names `setting`, for anything else, a core that is not usable, or
// one named twice.
Result<std::vector<int>> parse_cpus(const std::string& text, std::string_view setting = "cpus");
// Of these `usable` ones, rising, whatever machine they are of.
Result<std::vector<int>> parse_cpus(const std::string& text, std::string_view setting,
                                    const std::vector<int>& usable);
std::size_t resident_bytes();  // of this process, now
// Raises the number of files this process may have open to `wanted` if it is lower, as far as the
// hard limit goes. Returns what it is then.
std::size_t allow_open_files(std::size_t wanted);

}  // namespace tandem
