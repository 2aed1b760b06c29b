// Adapters for the cold start benchmark: a few contents per rank, served under ever new names,
// since what makes an adapter cold is where it is, not what is in it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/loader/adapter.h"
#include "engine/model/spec/model_spec.h"

namespace tandem {

// A folder of its own for each process, removed with all in it at the end.
class ScratchFolder {
 public:
  static Result<ScratchFolder> create();
  ~ScratchFolder();
  ScratchFolder(ScratchFolder&& other) noexcept;
  ScratchFolder& operator=(ScratchFolder&&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  explicit ScratchFolder(std::filesystem::path path) : path_(std::move(path)) {}

  std::filesystem::path path_;
};

// Writes adapter_config.json and adapter_model.safetensors into `folder`, as PEFT does.
Status write_peft_folder(const std::filesystem::path& folder, const Adapter& adapter,
                         const ModelSpec& config);

// Adapters of q, k and v, the setting of the papers.
class ColdAdapters {
 public:
  static constexpr std::size_t kContents = 4;  // of each rank

  ColdAdapters(const ModelSpec& config, DType dtype) : config_(config), dtype_(dtype) {}

  // The `index`-th of that rank; made when first asked for, the same in every run.
  const Adapter& contents(std::int32_t rank, std::size_t index);
  // The same as folders on disk, their pages in the page cache.
  Result<std::vector<std::string>> folders(std::int32_t rank);
  // Of a host tier that holds so many.
  std::size_t host_tier_bytes(std::int64_t count, std::int32_t rank) const;

 private:
  ModelSpec config_;
  DType dtype_;
  std::map<std::int32_t, std::vector<Adapter>> made_;
  std::map<std::int32_t, std::vector<std::string>> written_;
  std::vector<ScratchFolder> scratch_;  // one at most
};

}  // namespace tandem
