// Input: a recording of steps. Its checksums are corrected first, since they would catch every
// change.
#include <algorithm>
#include <cstring>
#include <string>
#include <variant>

#include "base/check.h"
#include "engine/executor/plan_check.h"
#include "engine/recording/recording_reader.h"
#include "tests/fuzz/memory_file.h"
#include "tests/fuzz/targets.h"

namespace tandem::fuzz {
namespace {

std::string with_checksums(std::string bytes) {
  std::size_t at = sizeof(RecordingHeader);
  while (at + sizeof(RecordHeader) <= bytes.size()) {
    RecordHeader header;
    std::memcpy(&header, bytes.data() + at, sizeof header);
    const std::size_t payload = at + sizeof header;
    if (header.bytes > bytes.size() - payload) break;
    header.check = check_of(std::string_view(bytes).substr(payload, header.bytes));
    std::memcpy(bytes.data() + at, &header, sizeof header);
    at = payload + header.bytes;
  }
  return bytes;
}

}  // namespace

void fuzz_recording(Bytes bytes) {
  static const MemoryFile file;
  file.write(with_checksums(std::string(text_of(bytes))));
  Result<RecordingReader> reader = RecordingReader::open(file.path());
  if (!reader) return;
  const RecordedSettings& settings = reader->settings();
  const PlanLimits limits{settings.model, settings.step, settings.num_pages, settings.page_tokens,
                          settings.vocab_size};
  std::int32_t samples = 0;
  while (true) {
    const auto record = reader->next();
    if (!record || std::holds_alternative<std::monostate>(*record)) return;
    const auto* plan = std::get_if<StepPlan>(&*record);
    if (plan == nullptr || !check_plan(*plan, limits, samples)) continue;
    // These values are used without checks from here on.
    for (const StepPlan::Entry& entry : plan->entries) {
      TANDEM_CHECK(entry.tokens.count > 0 && entry.start >= 0);
      const std::int64_t end = entry.start + entry.tokens.count;
      TANDEM_CHECK(end <= settings.model.max_positions, "{}", end);
      TANDEM_CHECK(std::int64_t{entry.pages.count} * settings.page_tokens >= end);
    }
    for (const PageId page : plan->pages) {
      TANDEM_CHECK(page.value() >= 0 && page.value() < settings.num_pages);
    }
    for (const TokenId token : plan->tokens) {
      TANDEM_CHECK(token < settings.vocab_size && token >= -std::int64_t{samples}, "{}", token);
    }
    samples = static_cast<std::int32_t>(plan->samples.size());
  }
}

}  // namespace tandem::fuzz
