// The source version and the tools from which this program was built.
#pragma once

#include <string>

namespace tandem {

std::string version_number();  // "0.1.0"
// Short hash, with "-dirty" if the tree had changes; "unknown" without git.
std::string build_commit();
std::string build_text();  // compiler and build type
std::string utc_now();     // "2026-11-23T20:15:00Z", for dates in files

}  // namespace tandem
