// Output of a program: files that the user asked for, and standard output.
#pragma once

#include <functional>
#include <string>

#include "base/status.h"

namespace tandem {

// Checks that the file that the user named by `setting` can be written, before the work whose
// result it takes: the folder accepts a new file with some bytes, or the existing file opens for
// writing. Leaves nothing behind. `replaced`: the result will replace a file (replace_file), which
// must be a regular one. Does not check that there is space for the whole result.
Status check_output(const std::string& setting, const std::string& path, bool replaced = false);

// The frame of a program's main(). Runs `run` and returns its exit status, or the status of a
// failure, with a message, if it throws or if standard output did not take everything written to
// it. From now on a file that reaches the size limit (ulimit -f) makes its write fail and does not
// end the process. `name` begins messages: "tandem".
int run_program(const char* name, const std::function<int()>& run);

}  // namespace tandem
