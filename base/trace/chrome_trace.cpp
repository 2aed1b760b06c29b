#include "base/trace/chrome_trace.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <system_error>
#include <utility>

#include "base/text/json_string.h"

namespace tandem {
namespace {

constexpr int kStepsLane = 1;
constexpr int kLoadsLane = 16;
constexpr int kWorkersLane = 32;
constexpr int kMostLanes = 64;
constexpr std::string_view kSeparator = ",\n";

// The lane as the drawing's thread id. Spans of requests have none, because they overlap.
int lane_of(const Span& span) {
  switch (span.track) {
    case SpanTrack::request:
      return 0;
    case SpanTrack::steps:
      return std::min(kStepsLane + span.lane, kLoadsLane - 1);
    case SpanTrack::loads:
      return std::min(kLoadsLane + span.lane, kWorkersLane - 1);
    case SpanTrack::workers:
      return std::min(kWorkersLane + span.lane, kMostLanes - 1);
  }
  return 0;
}

std::string lane_name(const Span& span) {
  switch (span.track) {
    case SpanTrack::request:
      return "requests";
    case SpanTrack::steps:
      return fmt::format("device {}: steps", span.lane);
    case SpanTrack::loads:
      return fmt::format("device: loads of adapters, {}", span.lane);
    case SpanTrack::workers:
      return fmt::format("CPU workers, group {}", span.lane);
  }
  return {};
}

void append_us(std::string& out, Duration time) {
  const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
  fmt::format_to(std::back_inserter(out), "{}.{:03}", ns / 1000, ns % 1000);
}

void append_args(std::string& out, const Span& span) {
  out += ",\"args\":{";
  std::string_view comma;
  const auto name = [&](std::string_view key) {
    out += comma;
    append_json_string(out, key);
    out += ':';
    comma = ",";
  };
  if (span.context.valid()) {
    name("trace_id");
    append_json_string(out, trace_hex(span.context.trace));
    name("span_id");
    append_json_string(out, span_hex(span.context.span));
    name("parent_id");
    append_json_string(out, span_hex(span.context.parent));
  }
  for (std::size_t i = 0; i < span.num_texts; ++i) {
    name(span.texts[i].name);
    append_json_string(out, span.texts[i].view());
  }
  for (std::size_t i = 0; i < span.num_numbers; ++i) {
    name(span.numbers[i].name);
    append_json_number(out, span.numbers[i].value);
  }
  if (span.failed) {
    name("failed");
    out += "true";
  }
  out += '}';
}

}  // namespace

// A request's span is a pair of events. Events that share an id are drawn below one another; the id
// is that of the request's own span in this process.
void append_chrome_events(std::string& out, const Span& span, int pid, std::string_view separator) {
  const auto begin = span.begin.time_since_epoch();
  const Duration took = std::max(span.end - span.begin, Duration::zero());
  const auto head = [&](std::string_view phase) {
    out += separator;
    out += "{\"name\":";
    append_json_string(out, span.name);
    fmt::format_to(std::back_inserter(out), ",\"ph\":\"{}\",\"pid\":{},\"tid\":{},\"ts\":", phase,
                   pid, lane_of(span));
  };
  if (span.track != SpanTrack::request) {
    head("X");
    append_us(out, begin);
    out += ",\"dur\":";
    append_us(out, took);
    append_args(out, span);
    out += '}';
    return;
  }
  const SpanId group = span.kind == SpanKind::server ? span.context.span : span.context.parent;
  const std::string id =
      fmt::format(R"(,"cat":"request","id2":{{"local":"0x{}"}})", span_hex(group));
  head("b");
  append_us(out, begin);
  out += id;
  append_args(out, span);
  out += '}';
  head("e");
  append_us(out, begin + took);
  out += id;
  out += '}';
}

ChromeTraceFile::ChromeTraceFile(std::filesystem::path path, std::uint64_t max_bytes,
                                 std::string process)
    : path_(std::move(path)), max_bytes_(max_bytes), process_(std::move(process)) {}

ChromeTraceFile::~ChromeTraceFile() {
  end();
}

Result<std::unique_ptr<ChromeTraceFile>> ChromeTraceFile::create(const std::filesystem::path& path,
                                                                 std::uint64_t max_bytes,
                                                                 std::string process) {
  std::unique_ptr<ChromeTraceFile> file(new ChromeTraceFile(path, max_bytes, std::move(process)));
  TANDEM_TRY(file->begin());
  return file;
}

Status ChromeTraceFile::begin() {
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor_ < 0) {
    return error(StatusCode::invalid_argument, "the trace {} cannot be written: {}", path_.string(),
                 std::strerror(errno));
  }
  bytes_ = 0;
  named_lanes_ = 0;
  std::string first = fmt::format(
      "[\n{{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":{},\"args\":{{\"name\":", ::getpid());
  append_json_string(first, process_);
  first += "}}";
  return append(first);
}

// Half an event would make the whole file unreadable, so a short write is taken back.
Status ChromeTraceFile::append(const std::string& text) {
  std::size_t written = 0;
  while (written < text.size()) {
    const ssize_t got = ::write(descriptor_, text.data() + written, text.size() - written);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      const int why = got < 0 ? errno : ENOSPC;
      const int taken_back = ::ftruncate(descriptor_, static_cast<off_t>(bytes_));
      ::close(std::exchange(descriptor_, -1));
      return error(StatusCode::unavailable, "the trace {} ends here{}: {}", path_.string(),
                   taken_back == 0 ? "" : ", in the middle of an event", std::strerror(why));
    }
    written += static_cast<std::size_t>(got);
  }
  bytes_ += text.size();
  return {};
}

void ChromeTraceFile::name_lane(const Span& span, std::string& out) {
  const int lane = lane_of(span);
  const std::uint64_t bit = std::uint64_t{1} << lane;
  if ((named_lanes_ & bit) != 0) return;
  named_lanes_ |= bit;
  fmt::format_to(std::back_inserter(out),
                 "{}{{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":{},\"tid\":{},\"args\":{{"
                 "\"name\":\"{}\"}}}}",
                 kSeparator, ::getpid(), lane, lane_name(span));
}

Status ChromeTraceFile::write(std::span<const Span> spans) {
  if (descriptor_ < 0) return {};
  std::string text;
  for (const Span& span : spans) {
    name_lane(span, text);
    append_chrome_events(text, span, ::getpid(), kSeparator);
    if (bytes_ + text.size() < max_bytes_ / 2) continue;
    TANDEM_TRY(append(text));
    text.clear();
    end();
    std::error_code failure;  // on failure this file is restarted, and the older one stays
    std::filesystem::rename(path_, path_.string() + ".1", failure);
    TANDEM_TRY(begin());
  }
  return append(text);
}

void ChromeTraceFile::end() {
  if (descriptor_ < 0) return;
  const Status last = append("\n]\n");
  if (last.ok()) ::close(std::exchange(descriptor_, -1));
}

}  // namespace tandem
