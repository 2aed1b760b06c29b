// A PEFT adapter's folder, opened and checked but for the weights themselves: which bytes of its
// file go where in an adapter's run of bytes. The folder is opened once, following no link in its
// path (Folder::open), and both files in it: so it is for all who read adapters, again or first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "base/file.h"
#include "base/status.h"
#include "engine/loader/adapter.h"
#include "engine/loader/peft/peft_source.h"

namespace tandem {

// One thread's memory for what it reads and converts, a block at a time.
struct PeftScratch {
  std::vector<std::byte> raw;
  std::vector<float> values;
};

class PeftFolder {
 public:
  // Refuses as load_peft_adapter() says, but for weights that are not finite.
  // Messages name its files, never where it lies. `writing`: of the weights' file, where somebody
  // still writes it; whatever reads of it then waits for what it needs.
  static Result<PeftFolder> open(const std::filesystem::path& dir, const ModelSpec& config,
                                 DType dtype, const LinkRule& links,
                                 std::shared_ptr<const FileProgress> writing = nullptr);
  // Opens the folder that `source` describes, and reads nothing. Null: its files are others now, or
  // cannot be opened; open() says what is the matter.
  static std::optional<PeftFolder> reopen(const std::filesystem::path& dir,
                                          std::shared_ptr<const PeftSource> source, DType dtype,
                                          const LinkRule& links);

  // Everything of the adapter but its bytes and digest. Only of open().
  const Adapter& adapter() const { return adapter_; }
  // At least one.
  const std::vector<PeftJob>& jobs() const { return source_->jobs; }

  // Fills the job's part of the run that starts at `bytes`. Thread-safe.
  Status fill(const PeftJob& job, std::byte* bytes, PeftScratch& scratch) const;
  // Refuses NaN and infinities in it.
  Status check_finite(const PeftJob& job, const std::byte* bytes) const;

  // Whether the files are as they were when they were opened. After the last byte was read.
  bool is_unchanged() const;
  // What to read it from again, asked after the last byte was read: it stands for what has been
  // read. Null: the files have changed meanwhile, or cannot be told from changed ones
  // (FileIdentity::vouches). `now_ns` was the time before open().
  std::shared_ptr<const PeftSource> source(std::int64_t now_ns) const;

 private:
  PeftFolder(File config, File weights, DType dtype)
      : config_(std::move(config)), weights_(std::move(weights)), dtype_(dtype) {}
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
