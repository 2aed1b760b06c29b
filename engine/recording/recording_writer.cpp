#include "engine/recording/recording_writer.h"

#include <cerrno>
#include <filesystem>
#include <new>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/log/log.h"

namespace tandem {
namespace {

void put_settings(const RecordedSettings& settings, RecordBytes& out) {
  each_setting(settings, [&](const auto& field) {
    using Field = std::remove_cvref_t<decltype(field)>;
    if constexpr (std::is_same_v<Field, DType>) {
      out.put_text(to_string(field));
    } else if constexpr (std::is_same_v<Field, std::string>) {
      out.put_text(field);
    } else {
      out.put(field);
    }
  });
}

// The structs have no padding, so their bytes in the file are exactly their fields.
static_assert(sizeof(SampleRow) == 16 * 4 + 2 * 8);
static_assert(sizeof(TokenBias) == 8);

void put_plan(const StepPlan& plan, RecordBytes& out) {
  out.put_list(std::span(plan.tokens));
  out.put_list(std::span(plan.pages));
  out.put_list(std::span(plan.history));
  out.put_list(std::span(plan.biases));
  std::vector<SampleRow> hows;
  std::vector<std::int32_t> rows;
  for (const StepPlan::Sample& sample : plan.samples) {
    rows.push_back(sample.row);
    hows.push_back(sample.how);
  }
  out.put_list(std::span<const std::int32_t>(rows));
  out.put_list(std::span<const SampleRow>(hows));
  out.put(plan.num_masks);
  out.put(static_cast<std::uint64_t>(plan.entries.size()));
  for (const StepPlan::Entry& entry : plan.entries) {
    out.put(entry.id);
    out.put(entry.start);
    out.put(entry.tokens.count);
    out.put(entry.pages.count);
    out.put(entry.samples.count);
    out.put(entry.adapter.slot);
    out.put(entry.adapter.max_rank);
    out.put(entry.first_adapted);
    out.put(entry.rotary_length);
  }
}

// Makes the path valid from any working directory.
std::string absolute(const std::string& path) {
  std::error_code failure;
  const auto full = std::filesystem::absolute(path, failure);
  return path.empty() || failure ? path : full.lexically_normal().string();
}

}  // namespace

Result<std::unique_ptr<RecordingWriter>> RecordingWriter::create(const std::string& path,
                                                                 const RecordedSettings& settings) {
  std::FILE* const file = std::fopen(path.c_str(), "wbe");
  if (file == nullptr) return errno_status("record_steps: " + path, errno);
  std::unique_ptr<RecordingWriter> writer(new RecordingWriter(path, file));
  const RecordingHeader header;
  writer->write_bytes(&header, sizeof header);
  RecordedSettings written = settings;
  std::error_code ignored;
  if (std::filesystem::exists(written.source.path, ignored)) {
    written.source.path = absolute(written.source.path);
  }
  put_settings(written, writer->bytes_);
  writer->write(RecordKind::settings);
  return writer;
}

RecordingWriter::~RecordingWriter() {
  try {
    bytes_.put(num_records_);
    write(RecordKind::end);
  } catch (const std::bad_alloc&) {
    break_off();
  }
  if (file_ != nullptr && std::fclose(file_) != 0) {
    log::error("record_steps: {}: {}", path_, errno_status("close", errno).message());
  }
}

void RecordingWriter::note_adapter(const RecordedAdapter& adapter) {
  std::string& known = digests_[adapter.slot];
  if (known == adapter.digest) return;
  known = adapter.digest;
  bytes_.put(adapter.slot);
  bytes_.put(adapter.rank);
  bytes_.put_text(adapter.digest);
  bytes_.put_text(absolute(adapter.path));
  write(RecordKind::adapter);
}

void RecordingWriter::add_plan(const StepPlan& plan) {
  put_plan(plan, bytes_);
  write(RecordKind::plan);
}

void RecordingWriter::add_masks(std::span<const std::uint32_t> masks) {
  bytes_.put_list(masks);
  write(RecordKind::masks);
}

void RecordingWriter::add_result(const StepResult& result, std::span<const std::uint8_t> is_stale) {
  std::vector<TokenId> tokens;
  for (const SampledToken& sample : result.samples) tokens.push_back(sample.token);
  bytes_.put(static_cast<std::uint32_t>(result.status.ok() ? 1 : 0));
  bytes_.put_list(std::span<const TokenId>(tokens));
  bytes_.put_list(is_stale);
  write(RecordKind::result);
}

void RecordingWriter::break_off() noexcept {
  if (file_ != nullptr) std::fclose(std::exchange(file_, nullptr));
}

void RecordingWriter::write(RecordKind kind) {
  const std::string& payload = bytes_.bytes();
  const RecordHeader header{static_cast<std::uint32_t>(kind), 0, payload.size(), check_of(payload)};
  write_bytes(&header, sizeof header);
  write_bytes(payload.data(), payload.size());
  bytes_.clear();
  ++num_records_;
}

void RecordingWriter::write_bytes(const void* data, std::size_t count) {
  if (file_ == nullptr || std::fwrite(data, 1, count, file_) == count) return;
  log::error("record_steps: {}: {}; nothing more is recorded", path_,
             errno_status("write", errno).message());
  std::fclose(file_);
  file_ = nullptr;
}

}  // namespace tandem
