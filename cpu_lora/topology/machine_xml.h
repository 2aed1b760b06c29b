// The file that describes a machine (`lstopo FILE.xml`), made safe for hwloc to parse.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace tandem {

// Reads the file and returns what hwloc is to parse: safe_machine_xml() of its text. Only a regular
// file of up to 512 MB is read, so that no pipe or device blocks.
Result<std::string> read_machine_xml(const std::string& path);

// hwloc's parser calls itself for each level of elements and is not made for strangers' files: it
// crashes where they are nested too deep. Refuses that, and what no hwloc writes (CDATA, a document
// type with declarations of its own, other encodings than UTF-8). Leaves comments out and escapes
// '>' in quotes, so that all parsers see the same elements. Takes time in proportion to the text.
Result<std::string> safe_machine_xml(std::string_view text);

}  // namespace tandem
