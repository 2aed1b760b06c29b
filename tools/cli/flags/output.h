// What a program writes: files that are asked for, and standard output.
#pragma once

#include <functional>
#include <string>

#include "base/status.h"

namespace tandem {

// Whether a file that the user named by `setting` can be written, told before the work whose result
// it is to take: that its folder takes a new file with some bytes in it, or that what is there can
// be opened for writing. Nothing of it stays. `replaced`: it will be put in the place of a file
// (replace_file), which must be a regular one. Space for the whole result is not looked for.
Status check_output(const std::string& setting, const std::string& path, bool replaced = false);

// The frame of a program's main(). Runs `run` and returns its exit status; that of a failure, with
// a message, where it throws, or where standard output has not taken all that was written to it. A
// file that reaches the limit on sizes of files (ulimit -f) is an error of its write from now on,
// not the end of the process. `name` begins messages: "tandem".
int run_program(const char* name, const std::function<int()>& run);

}  // namespace tandem
