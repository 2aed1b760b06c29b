#include "tools/cli/flags/output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <system_error>

#include "base/limits/process_limits.h"
#include "tools/cli/flags/flags.h"

namespace tandem {
namespace {

// Writes some bytes into a temporary file of `folder` and removes it. Returns an errno; 0: it
// worked.
int try_new_file(const std::filesystem::path& folder) {
  std::string name = (folder / ".tandem-output-XXXXXX").string();
  const int file = ::mkstemp(name.data());
  if (file < 0) return errno;
  ::unlink(name.c_str());
  static constexpr std::array<char, 4096> kBytes{};
  int failure = 0;
  for (std::size_t at = 0; at < kBytes.size() && failure == 0;) {
    const ssize_t count = ::write(file, kBytes.data() + at, kBytes.size() - at);
    if (count > 0) at += static_cast<std::size_t>(count);
    if (count <= 0 && errno != EINTR) failure = errno;
  }
  ::close(file);
  return failure;
}

// Returns an errno; 0: it can be opened. A pipe without a reader (ENXIO) is no error: it may come
// yet.
int try_to_open(const std::string& path) {
  const int file = ::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
  if (file < 0) return errno == ENXIO ? 0 : errno;
  ::close(file);
  return 0;
}

// Flushes standard output, since a write error may appear only now. `failure`: the errno of an
// earlier write; 0: not known.
int finish_output(const char* name, int status, int failure) {
  errno = 0;
  const bool flushed = std::fflush(stdout) == 0;
  if (!flushed && errno != 0) failure = errno;
  if (flushed && failure == 0) {
    // A failed command has already said why, for example because it could not write.
    if (std::ferror(stdout) == 0 || status != kExitOk) return status;
  }
  fmt::print(stderr, "{}: standard output has not taken everything{}{}\n", name,
             failure != 0 ? ": " : "", failure != 0 ? std::strerror(failure) : "");
  return status == kExitOk ? kExitFailure : status;
}

}  // namespace

Status check_output(const std::string& setting, const std::string& path, bool replaced) {
  const std::string what = fmt::format("{}: {}", setting, path);
  std::error_code failure;
  const std::filesystem::file_status there = std::filesystem::status(path, failure);
  const bool exists = std::filesystem::exists(there);
  if (exists && !std::filesystem::is_regular_file(there)) {
    if (replaced) return invalid("{} is not a regular file", what);
    const int refused = try_to_open(path);
    return refused == 0 ? Status() : errno_status(what, refused);
  }
  // The folder of the target if `path` is a link.
  std::filesystem::path real = path;
  if (exists) real = std::filesystem::canonical(path, failure);
  const bool in_place = exists && !replaced;
  int refused = in_place ? try_to_open(path) : 0;
  if (refused == 0 && !in_place) {
    const std::filesystem::path folder = real.parent_path();
    refused = try_new_file(folder.empty() ? "." : folder);
  }
  return refused == 0 ? Status() : errno_status(what, refused);
}

int run_program(const char* name, const std::function<int()>& run) {
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    return finish_output(name, run(), 0);
  } catch (const std::system_error& failure) {
    // fmt::print throws if it cannot write.
    if (std::ferror(stdout) != 0) {
      return finish_output(name, kExitFailure, failure.code().value());
    }
    fmt::print(stderr, "{}: internal error: {}\n", name, failure_text(failure));
  } catch (const std::exception& failure) {
    // A last resort: an unexpected exception of a library ends in a message, not in abort().
    fmt::print(stderr, "{}: internal error: {}\n", name, failure_text(failure));
  }
  return kExitFailure;
}

}  // namespace tandem
