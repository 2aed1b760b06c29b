// What this program was built from and with.
#pragma once

#include <string>

namespace tandem {

std::string version_text();    // several lines, for `tandem --version`
std::string version_number();  // "0.1.0"
std::string
build_commit();  // short hash, with "-dirty" when the tree differed; "unknown" without git

}  // namespace tandem
