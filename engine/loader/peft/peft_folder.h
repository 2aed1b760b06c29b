// A PEFT adapter's folder, opened and checked except for the weights themselves: it maps the bytes
// of the file to the adapter's run of bytes. The folder and both of its files are opened once,
// without following links in the path (Folder::open). All readers of adapters use it, for first
// reads and rereads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "base/file/file.h"
#include "base/status.h"
#include "engine/loader/adapter.h"
#include "engine/loader/peft/peft_source.h"

namespace tandem {

// One thread's buffers for reading and converting, one block at a time.
struct PeftScratch {
  std::vector<std::byte> raw;
  std::vector<float> values;
  std::vector<float> biases;
  std::vector<std::byte> stored;  // a matrix that is spread
};

class PeftFolder {
 public:
  // Refuses what load_peft_adapter() refuses, except for weights that are not finite. Messages name
  // the folder's files, never its path. `writing` is the progress of the weights' file if it is
  // still being written; reads then wait for the bytes that they need.
  static Result<PeftFolder> open(const std::filesystem::path& dir, const ModelSpec& spec,
                                 DType dtype, const LinkRule& links,
                                 std::shared_ptr<const FileProgress> writing = nullptr);
  // Opens the folder that `source` describes without reading anything. Null if its files have
  // changed or cannot be opened; open() then returns the reason.
  static std::optional<PeftFolder> reopen(const std::filesystem::path& dir,
                                          std::shared_ptr<const PeftSource> source, DType dtype,
                                          const LinkRule& links);

  // Everything of the adapter but its bytes and digest. Only after open(), not after reopen().
  const Adapter& adapter() const { return adapter_; }
  // At least one.
  const std::vector<PeftJob>& jobs() const { return source_->jobs; }

  // Fills the job's part of the run that starts at `bytes`. Thread-safe.
  Status fill(const PeftJob& job, std::byte* bytes, PeftScratch& scratch) const;
  // Refuses NaN and infinities in the job's part. `spec`: the base's, for the message.
  Status check_finite(const PeftJob& job, const std::byte* bytes, const ModelSpec& spec) const;

  // Whether the files are as they were when they were opened. Call it after the last byte was read.
  bool is_unchanged() const;
  // Returns the source for rereading the contents that have just been read; call it after the last
  // byte was read. Null if the files have changed in the meantime, or if a later change could not
  // be detected (FileIdentity::vouches). `now_ns` is the time before open().
  std::shared_ptr<const PeftSource> source(std::int64_t now_ns) const;

 private:
  PeftFolder(File config, File weights, DType dtype)
      : config_(std::move(config)), weights_(std::move(weights)), dtype_(dtype) {}
  Status fill_tokens(const PeftJob& job, std::byte* bytes, PeftScratch& scratch) const;
  Status fill_vector(const PeftJob& job, std::byte* target, PeftScratch& scratch) const;
  Status fill_whole(const PeftJob& job, std::byte* target, PeftScratch& scratch) const;
  Status fill_a(const PeftJob& job, std::byte* target, PeftScratch& scratch) const;
  Status fill_b(const PeftJob& job, std::byte* target, PeftScratch& scratch) const;
  Status with_path(const Status& status) const;

  File config_;
  File weights_;
  DType dtype_;
  Adapter adapter_;
  std::shared_ptr<const PeftSource> source_;
};

}  // namespace tandem
