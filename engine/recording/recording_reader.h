// Reads a recording (recording.h), whatever it holds: a file that is cut off, damaged or made up
// gives a message that says where, never anything else.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "base/file.h"
#include "base/status.h"
#include "engine/recording/record_bytes.h"
#include "engine/recording/recording.h"

namespace tandem {

class RecordingReader {
 public:
  // Up to its settings, which are within sane bounds.
  static Result<RecordingReader> open(const std::string& path);

  const RecordedSettings& settings() const { return settings_; }

  // The next record; monostate: that was the end. A plan's lists and ranges are as StepPlan says,
  // what they hold is for check_plan() to say; a result's lengths are for the caller.
  using Record =
      std::variant<std::monostate, RecordedAdapter, StepPlan, RecordedMasks, RecordedResult>;
  Result<Record> next();

 private:
  explicit RecordingReader(File file) : file_(std::move(file)) {}
  Result<RecordKind> read_record();  // into payload_
  Status read_settings();
  Status in_file(const Status& status) const;  // the same, saying where

  File file_;
  std::uint64_t offset_ = 0;
  std::uint64_t num_records_ = 0;
  std::string payload_;
  RecordedSettings settings_;
};

}  // namespace tandem
