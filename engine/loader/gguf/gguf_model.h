// A model in a GGUF file, or in the files that it was split into.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/loader/gguf/gguf_file.h"

namespace tandem {

// Immutable once open; thread-safe.
class GgufModel {
 public:
  // `path`: the file, or the first of several (NAME-00001-of-0000N.gguf), whose others are opened
  // beside it. Refuses a set of files that is not complete.
  static Result<GgufModel> open(const std::filesystem::path& path);

  struct Place {
    const GgufFile* file = nullptr;
    const GgufTensor* tensor = nullptr;
  };
  using Places = std::map<std::string, Place, std::less<>>;

  const std::string& path() const { return files_.front()->path(); }
  const std::vector<std::unique_ptr<GgufFile>>& files() const { return files_; }
  const Places& tensors() const { return places_; }
  // Returns null if there is no tensor of that name.
  const GgufTensor* tensor(std::string_view name) const;

  // The metadata, which is that of the first file. A value of another kind is an error that names
  // the key; for the first four, so is a list.
  const GgufValue* find(std::string_view key) const;
  Result<std::optional<std::int64_t>> integer(std::string_view key) const;
  Result<std::optional<double>> number(std::string_view key) const;
  Result<std::optional<bool>> boolean(std::string_view key) const;
  Result<std::optional<std::string_view>> text(std::string_view key) const;
  // Empty if the key is absent.
  Result<std::vector<std::string_view>> texts(std::string_view key) const;
  // 'general.architecture', which must be there.
  Result<std::string_view> architecture() const;

 private:
  GgufModel() = default;
  Status add(GgufFile file);
  Status add_others(const std::filesystem::path& first, std::int64_t count);

  std::vector<std::unique_ptr<GgufFile>> files_;  // unique_ptr: places_ points into them
  Places places_;
};

}  // namespace tandem
