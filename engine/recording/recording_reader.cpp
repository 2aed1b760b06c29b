#include "engine/recording/recording_reader.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>

namespace tandem {
namespace {

template <typename T>
Status check_bounds(const char* what, T value, std::int64_t low, std::int64_t high) {
  if (std::int64_t{value} >= low && std::int64_t{value} <= high) return {};
  return invalid("{} {} is not in {} .. {}", what, value, low, high);
}

// Checks that an engine could have these settings; whether there is enough memory is checked by the
// device later.
Status check_settings(const RecordedSettings& s) {
  constexpr std::int64_t kRows = std::int64_t{1} << 20;
  constexpr std::int64_t kSequences = std::int64_t{1} << 16;
  constexpr std::int64_t kMany = std::int64_t{1} << 28;
  TANDEM_TRY(check_bounds("vocab_size", s.vocab_size, 1, kMany));
  TANDEM_TRY(check_bounds("max_rows", s.model.max_rows, 1, kRows));
  TANDEM_TRY(check_bounds("max_samples", s.model.max_samples, 1, kRows));
  TANDEM_TRY(check_bounds("max_positions", s.model.max_positions, 1, kMany));
  TANDEM_TRY(check_bounds("max_lora_rank", s.model.max_lora_rank, 0, 2048));
  TANDEM_TRY(check_bounds("max_added_tokens", s.model.max_added_tokens, 0, kRows));
  TANDEM_TRY(check_bounds("max_rows of a step", s.step.max_rows, 1, s.model.max_rows));
  TANDEM_TRY(check_bounds("max_sequences", s.step.max_sequences, 1, kSequences));
  TANDEM_TRY(check_bounds("max_samples of a step", s.step.max_samples, 1, s.model.max_samples));
  TANDEM_TRY(check_bounds("max_pages of a step", s.step.max_pages, 1, kMany));
  TANDEM_TRY(
      check_bounds("max_history", s.step.max_history, 0, std::max(kRows, s.model.max_positions)));
  TANDEM_TRY(
      check_bounds("max_biases", s.step.max_biases, 0, 4096 * std::int64_t{s.step.max_sequences}));
  TANDEM_TRY(check_bounds("num_pages", s.num_pages, 1, kMany));
  TANDEM_TRY(check_bounds("page_tokens", s.page_tokens, 1, 1024));
  return check_bounds("max_graph_batch", s.max_graph_batch, 0, s.step.max_samples);
}

RecordedAdapter take_adapter(RecordCursor& from) {
  RecordedAdapter adapter;
  from.take(adapter.slot);
  from.take(adapter.rank);
  from.take_text(adapter.digest);
  from.take_text(adapter.path);
  return adapter;
}

// Sets `part` to the next `count` items of a list whose earlier parts end at `end`.
Status cut(const char* what, StepPlan::Range& part, std::int32_t count, std::int64_t& end,
           std::size_t size) {
  if (count < 0 || end + count > static_cast<std::int64_t>(size)) {
    return invalid("{} {} .. {} of {}", what, end, end + count, size);
  }
  part = {static_cast<std::int32_t>(end), count};
  end += count;
  return {};
}

Status take_plan(RecordCursor& from, StepPlan& plan) {
  from.take_list(plan.tokens);
  from.take_list(plan.pages);
  from.take_list(plan.history);
  from.take_list(plan.biases);
  std::vector<std::int32_t> rows;
  std::vector<SampleRow> hows;
  from.take_list(rows);
  from.take_list(hows);
  from.take(plan.num_masks);
  if (rows.size() != hows.size())
    return invalid("{} rows for {} samples", rows.size(), hows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) plan.samples.push_back({rows[i], hows[i]});
  std::uint64_t count = 0;
  from.take(count);
  std::int64_t tokens = 0, pages = 0, samples = 0;
  // The announced number of entries is limited to one per token.
  if (count > plan.tokens.size()) return invalid("{} entries", count);
  for (std::uint64_t i = 0; i < count; ++i) {
    StepPlan::Entry entry;
    std::int32_t num_tokens = 0, num_pages = 0, num_samples = 0;
    from.take(entry.id);
    from.take(entry.start);
    from.take(num_tokens);
    from.take(num_pages);
    from.take(num_samples);
    from.take(entry.adapter.slot);
    from.take(entry.adapter.max_rank);
    from.take(entry.first_adapted);
    from.take(entry.rotary_length);
    TANDEM_TRY(cut("tokens", entry.tokens, num_tokens, tokens, plan.tokens.size()));
    TANDEM_TRY(cut("pages", entry.pages, num_pages, pages, plan.pages.size()));
    TANDEM_TRY(cut("samples", entry.samples, num_samples, samples, plan.samples.size()));
    plan.entries.push_back(entry);
  }
  return {};
}

RecordedResult take_result(RecordCursor& from) {
  RecordedResult result;
  std::uint32_t ok = 0;
  from.take(ok);
  result.ok = ok != 0;
  from.take_list(result.tokens);
  from.take_list(result.is_stale);
  return result;
}

}  // namespace

Result<RecordingReader> RecordingReader::open(const std::string& path) {
  TANDEM_ASSIGN(File file, File::open(path));
  RecordingReader reader(std::move(file));
  RecordingHeader header;
  const RecordingHeader right;
  if (reader.file_.size() < sizeof header) return invalid("{} is no recording of steps", path);
  TANDEM_TRY(reader.file_.read(0, &header, sizeof header));
  if (std::memcmp(header.magic, right.magic, sizeof right.magic) != 0) {
    return invalid("{} is no recording of steps", path);
  }
  if (header.version != right.version) {
    return invalid("{} is a recording of version {}, this program reads version {}", path,
                   header.version, right.version);
  }
  reader.offset_ = sizeof header;
  TANDEM_TRY(reader.in_file(reader.read_settings()));
  return reader;
}

Status RecordingReader::read_settings() {
  TANDEM_ASSIGN(const RecordKind kind, read_record());
  if (kind != RecordKind::settings) return invalid("it does not begin with its settings");
  RecordCursor from(payload_);
  std::string dtype;
  each_setting(settings_, [&](auto& field) {
    using Field = std::remove_cvref_t<decltype(field)>;
    if constexpr (std::is_same_v<Field, DType>) {
      from.take_text(dtype);
    } else if constexpr (std::is_same_v<Field, std::string>) {
      from.take_text(field);
    } else {
      from.take(field);
    }
  });
  TANDEM_TRY(from.end());
  TANDEM_ASSIGN(settings_.dtype, parse_dtype(dtype));
  return check_settings(settings_);
}

Result<RecordKind> RecordingReader::read_record() {
  const std::uint64_t left = file_.size() - offset_;
  RecordHeader header;
  if (left < sizeof header) return invalid("it is cut off");
  TANDEM_TRY(file_.read(offset_, &header, sizeof header));
  if (header.bytes > left - sizeof header) return invalid("it is cut off");
  payload_.resize(static_cast<std::size_t>(header.bytes));
  TANDEM_TRY(file_.read(offset_ + sizeof header, payload_.data(), payload_.size()));
  if (header.zero != 0 || header.check != check_of(payload_)) return invalid("it is damaged");
  offset_ += sizeof header + header.bytes;
  ++num_records_;
  return static_cast<RecordKind>(header.kind);
}

Result<RecordingReader::Record> RecordingReader::next() {
  const Result<RecordKind> kind = read_record();
  if (!kind) return in_file(kind.status());
  RecordCursor from(payload_);
  Record record;
  Status status;
  if (*kind == RecordKind::adapter) {
    record = take_adapter(from);
  } else if (*kind == RecordKind::plan) {
    status = take_plan(from, record.emplace<StepPlan>());
  } else if (*kind == RecordKind::masks) {
    from.take_list(record.emplace<RecordedMasks>().words);
  } else if (*kind == RecordKind::result) {
    record = take_result(from);
  } else if (*kind == RecordKind::end) {
    std::uint64_t count = 0;
    from.take(count);
    if (count != num_records_ - 1 || offset_ != file_.size()) status = invalid("a wrong end");
  } else {
    status = invalid("a record of kind {}", static_cast<std::uint32_t>(*kind));
  }
  if (status.ok()) status = from.end();
  if (!status) return in_file(status);
  return record;
}

Status RecordingReader::in_file(const Status& status) const {
  return status.with_context(
      fmt::format("{}, record {} (byte {})", file_.path(), num_records_, offset_));
}

}  // namespace tandem
