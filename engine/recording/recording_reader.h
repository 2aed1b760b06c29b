// Reads a recording (recording.h) as untrusted input: a truncated, damaged or forged file gives a
// message with the position of the error.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "base/file/file.h"
#include "base/status.h"
#include "engine/recording/record_bytes.h"
#include "engine/recording/recording.h"

namespace tandem {

class RecordingReader {
 public:
  // Opens the file and reads its settings, which are checked against plausible ranges.
  static Result<RecordingReader> open(const std::string& path);

  const RecordedSettings& settings() const { return settings_; }

  // The next record; monostate means the end. The lengths and ranges of a plan are valid as
  // StepPlan requires; its contents must still be checked by check_plan(), a result's lengths by
  // the caller.
  using Record =
      std::variant<std::monostate, RecordedAdapter, StepPlan, RecordedMasks, RecordedResult>;
  Result<Record> next();

 private:
  explicit RecordingReader(File file) : file_(std::move(file)) {}
  Result<RecordKind> read_record();  // reads into payload_
  Status read_settings();
  Status in_file(const Status& status) const;  // adds the file and position

  File file_;
  std::uint64_t offset_ = 0;
  std::uint64_t num_records_ = 0;
  std::string payload_;
  RecordedSettings settings_;
};

}  // namespace tandem
