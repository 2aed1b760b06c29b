// Adapters for the cold start benchmark: a few contents per rank, used under new names each time,
// because an adapter is cold by its location and not by its content.
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
#include "engine/model/spec/spread.h"

namespace tandem {

// A temporary folder of this process, which is removed with its content by the destructor.
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

// Writes adapter_config.json and adapter_model.safetensors into `folder` in PEFT's format.
Status write_peft_folder(const std::filesystem::path& folder, const Adapter& adapter,
                         const ModelSpec& spec);

// Adapters of q, k and v, as in the papers.
class ColdAdapters {
 public:
  static constexpr std::size_t kContents = 4;  // per rank

  // `spec`: as the checkpoint has it, though `num_devices` share the model.
  ColdAdapters(const ModelSpec& spec, DType dtype, std::int32_t num_devices = 1)
      : spec_(spec), spread_(spread_over(spec, num_devices)), dtype_(dtype) {}

  // The adapter with this index and rank; created on first use, the same in every run.
  const Adapter& contents(std::int32_t rank, std::size_t index);
  // The contents as folders on disk; their pages are in the page cache.
  Result<std::vector<std::string>> folders(std::int32_t rank);
  // The size of a host tier that holds `count` adapters.
  std::size_t host_tier_bytes(std::int64_t count, std::int32_t rank) const;

 private:
  ModelSpec spec_;
  ModelSpec spread_;  // as an engine holds it
  DType dtype_;
  std::map<std::int32_t, std::vector<Adapter>> made_;
  std::map<std::int32_t, std::vector<std::string>> written_;
  std::vector<ScratchFolder> scratch_;  // at most one
};

}  // namespace tandem
