// A regular file opened for reading, and its bytes by position.
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

// Where the links of a folder may lead.
struct LinkRule {
  bool anywhere = false;
  std::vector<std::filesystem::path> roots;  // these folders too, links in their own paths resolved
};

// Owns the descriptor: the contents stay readable when the file is deleted meanwhile, and a file
// truncated meanwhile gives a Status, where a mapping would kill the process. Thread-safe.
class File {
 public:
  // Refuses what is not a regular file (a pipe would block, a device has no end).
  static Result<File> open(const std::filesystem::path& path);
  // The file of that name in `folder`, which path() and all messages call by its name alone: they
  // go to clients, who need not learn where the folder is. A link must lead to within the folder or
  // to where `links` allows; one that does not is refused before anything is read, whoever changes
  // it meanwhile.
  static Result<File> open_in(const std::filesystem::path& folder, const std::string& name,
                              const LinkRule& links);

  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  ~File();

  const std::string& path() const { return path_; }
  std::uint64_t size() const { return size_; }  // when it was opened, or follow()
  int descriptor() const { return descriptor_; }
  // As the file is now.
  Result<FileIdentity> identity() const;

  // For one that somebody still writes: from now on it has the size that it will have, and read()
  // waits for what is not there yet. Before others use it.
  void follow(std::shared_ptr<const FileProgress> writing);

  // Reads exactly `count` bytes at `offset`.
  Status read(std::uint64_t offset, void* target, std::size_t count) const;

 private:
  File(int descriptor, std::string path);
  static Result<File> checked(File file);

  int descriptor_ = -1;
  std::uint64_t size_ = 0;
  std::string path_;
  std::shared_ptr<const FileProgress> writing_;  // null: all of it is there
};

// Puts `text` in the place of a regular file's contents, all at once: who reads it sees the old or
// the new, and a failure or a crash leaves the old. Mode and, where that is allowed, owner stay; of
// a symbolic link its target is replaced. Where nothing is there, a file of mode `new_mode` is made
// in the same way; without one that is not_found.
Status replace_file(const std::filesystem::path& path, std::string_view text,
                    std::optional<mode_t> new_mode = std::nullopt);

// The whole file, refused beyond `max_bytes`.
Result<std::string> read_text(const File& file, std::uint64_t max_bytes);
Result<std::string> read_text_file(const std::filesystem::path& path, std::uint64_t max_bytes);

}  // namespace tandem
