// Writes a recording (recording.h) while an engine runs. Only the engine thread uses it.
//
// A write failure (a full disk) ends the recording, not the engine; it is logged once. Without
// memory the functions that write throw; the caller then ends the recording by break_off().
#pragma once

#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "base/status.h"
#include "engine/recording/record_bytes.h"
#include "engine/recording/recording.h"

namespace tandem {

class RecordingWriter {
 public:
  // Creates or truncates the file.
  static Result<std::unique_ptr<RecordingWriter>> create(const std::string& path,
                                                         const RecordedSettings& settings);
  ~RecordingWriter();  // writes the end record
  RecordingWriter(const RecordingWriter&) = delete;
  RecordingWriter& operator=(const RecordingWriter&) = delete;

  // Call it before a plan that uses the slot; writes nothing if the slot is known to hold the
  // adapter.
  void note_adapter(const RecordedAdapter& adapter);
  void add_plan(const StepPlan& plan);
  // Adds the masks of the newest plan.
  void add_masks(std::span<const std::uint32_t> masks);
  // Adds the result of the oldest plan without one. For `is_stale` see RecordedResult.
  void add_result(const StepResult& result, std::span<const std::uint8_t> is_stale);
  // Stops writing, because a plan or a result is missing.
  void break_off() noexcept;

 private:
  RecordingWriter(std::string path, std::FILE* file) : path_(std::move(path)), file_(file) {}
  void write(RecordKind kind);  // writes the contents of bytes_
  void write_bytes(const void* data, std::size_t count);

  std::string path_;
  std::FILE* file_;  // null after a failure
  RecordBytes bytes_;
  std::map<SlotId, std::string> digests_;
  std::uint64_t num_records_ = 0;
};

}  // namespace tandem
