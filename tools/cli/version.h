// What this program was built from and with.
#pragma once

#include <string>

namespace tandem {

std::string version_text();    // several lines, for `tandem --version`
std::string version_number();  // "0.1.0"
// Short hash, with "-dirty" when the tree differed; "unknown" without git.
std::string build_commit();
std::string utc_now();  // "2026-11-23T20:15:00Z", for files that say what they are of

}  // namespace tandem
