// A regular file opened for reading, with reads by position.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file/file_identity.h"
#include "base/file/file_progress.h"
#include "base/status.h"

namespace tandem {

// The places to which links in a folder may lead.
struct LinkRule {
  bool anywhere = false;
  std::vector<std::filesystem::path> roots;  // also allowed; links in their own paths are resolved
};

// Owns the descriptor: the contents stay readable if the file is deleted meanwhile, and a file
// truncated meanwhile gives a Status, where a mapping would kill the process. Thread-safe.
class File {
 public:
  // Refuses anything but regular files (a pipe would block, a device has no end).
  static Result<File> open(const std::filesystem::path& path);
  // Opens the file `name` in `folder`. path() and all messages contain only the name, because they
  // go to clients, who need not learn the folder. A link must lead to within the folder or to where
  // `links` allows; otherwise it is refused before anything is read, even if it is changed
  // concurrently.
  static Result<File> open_in(const std::filesystem::path& folder, const std::string& name,
                              const LinkRule& links);

  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  ~File();

  const std::string& path() const { return path_; }
  std::uint64_t size() const { return size_; }  // as of open(), or follow()
  int descriptor() const { return descriptor_; }
  // The file's current identity.
  Result<FileIdentity> identity() const;

  // For a file that is still being written: it then has its final size, and read() waits for bytes
  // that are not there yet. Must be called before others use the file.
  void follow(std::shared_ptr<const FileProgress> writing);

  // Reads exactly `count` bytes at `offset`.
  Status read(std::uint64_t offset, void* target, std::size_t count) const;

 private:
  File(int descriptor, std::string path);
  static Result<File> checked(File file);

  int descriptor_ = -1;
  std::uint64_t size_ = 0;
  std::string path_;
  std::shared_ptr<const FileProgress> writing_;  // null: the file is complete
};

// Atomically replaces a regular file's contents by `text`: a reader sees the old or the new
// contents, and a failure or a crash leaves the old. Keeps the mode and, if allowed, the owner; for
// a symbolic link, its target is replaced. If there is no file, one with mode `new_mode` is made in
// the same way; without a mode that is not_found.
Status replace_file(const std::filesystem::path& path, std::string_view text,
                    std::optional<mode_t> new_mode = std::nullopt);

// Reads the whole file; refuses more than `max_bytes`.
Result<std::string> read_text(const File& file, std::uint64_t max_bytes);
Result<std::string> read_text_file(const std::filesystem::path& path, std::uint64_t max_bytes);

}  // namespace tandem
