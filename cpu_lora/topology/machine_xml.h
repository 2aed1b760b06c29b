// The file that describes a machine (`lstopo FILE.xml`), made safe for hwloc to parse.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace tandem {

// Reads the file and returns safe_machine_xml() of its text, for hwloc to parse. Only a regular
// file of up to 512 MB is read, so that no pipe or device blocks.
Result<std::string> read_machine_xml(const std::string& path);

// hwloc's parser recurses for each level of elements and crashes on a file that is nested too deep.
// This refuses such files, and everything that hwloc never writes (CDATA, a document type with
// declarations of its own, encodings other than UTF-8). It removes comments and escapes '>' in
// quotes, so that all parsers see the same elements. Time is linear in the text's length.
Result<std::string> safe_machine_xml(std::string_view text);

}  // namespace tandem
