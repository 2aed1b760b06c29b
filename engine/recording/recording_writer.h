// Writes a recording (recording.h) while an engine runs. The engine thread alone uses it.
//
// A failure to write (a full disk) ends the recording, not the engine: it is logged once. What
// writes throws where there is no memory, and break_off() then ends the recording.
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
  // Makes the file, or empties it.
  static Result<std::unique_ptr<RecordingWriter>> create(const std::string& path,
                                                         const RecordedSettings& settings);
  ~RecordingWriter();  // writes its end
  RecordingWriter(const RecordingWriter&) = delete;
  RecordingWriter& operator=(const RecordingWriter&) = delete;

  // Before a plan that names the slot; writes nothing where the slot is known to hold it.
  void note_adapter(const RecordedAdapter& adapter);
  void add_plan(const StepPlan& plan);
  // Of the newest plan.
  void add_masks(std::span<const std::uint32_t> masks);
  // Of the oldest plan without one. `is_void`: see RecordedResult.
  void add_result(const StepResult& result, std::span<const std::uint8_t> is_void);
  // Nothing more is written: a plan or a result is missing.
  void break_off() noexcept;

 private:
  RecordingWriter(std::string path, std::FILE* file) : path_(std::move(path)), file_(file) {}
  void write(RecordKind kind);  // what bytes_ holds
  void write_bytes(const void* data, std::size_t count);

  std::string path_;
  std::FILE* file_;  // null: it failed
  RecordBytes bytes_;
  std::map<SlotId, std::string> digests_;
  std::uint64_t num_records_ = 0;
};

}  // namespace tandem
