#include "scheduler/cluster/report/engine_report.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/json/json_text.h"
#include "scheduler/cluster/report/report_fields.h"
#include "scheduler/cluster/report/report_writer.h"

namespace tandem {
namespace {

using nlohmann::json;

// Reads the fields of report_fields.h from JSON members and remembers the first error.
class ReportReader {
 public:
  ReportReader(const json& object, Status& wrong, std::string_view of = {})
      : object_(object), wrong_(wrong), of_(of) {}

  template <typename Fields>
  void group(const char* name, Need need, const Fields& fields) {
    const json* const found = find(name);
    if (found == nullptr && need == Need::older_lack) return;
    if (found == nullptr || !found->is_object()) return refuse(name, "is no object");
    ReportReader inner(*found, wrong_, name);
    fields(inner);
  }
  template <typename T>
  void count(const char* name, T& value, std::int64_t most, std::int64_t least = 0) {
    const json* const found = find(name);
    if (found == nullptr || !found->is_number_integer()) return refuse(name, "is no whole number");
    const bool beyond = found->is_number_unsigned() &&
                        found->get<std::uint64_t>() > static_cast<std::uint64_t>(most);
    if (beyond || found->get<std::int64_t>() > most || found->get<std::int64_t>() < least) {
      return refuse(name, "is out of bounds");
    }
    value = static_cast<T>(found->get<std::int64_t>());
  }
  void flag(const char* name, bool& value, Need need = Need::always) {
    const json* const found = find(name);
    if (found == nullptr && need == Need::older_lack) return;
    if (found == nullptr || !found->is_boolean()) return refuse(name, "is neither true nor false");
    value = found->get<bool>();
  }
  void number(const char* name, double& value, double most, double least = 0) {
    const json* const found = find(name);
    if (found == nullptr || found->is_null()) return;
    const double given = found->is_number() ? found->get<double>() : -1;
    const bool fits = std::isfinite(given) && given <= most && given >= least;
    if (!fits) return refuse(name, "is out of bounds");
    value = given;
  }
  void time_left(const char* name, double& value, double most) {
    value = -1;
    number(name, value, most);
  }
  void text(const char* name, std::string& value, Need need = Need::always) {
    const json* const found = find(name);
    if (found == nullptr && need == Need::older_lack) return;
    if (found == nullptr || !found->is_string()) return refuse(name, "is no text");
    const auto& given = found->get_ref<const std::string&>();
    const bool printable = std::none_of(given.begin(), given.end(),
                                        [](unsigned char c) { return c < ' ' || c == 127; });
    if (given.size() > kMaxNameBytes || !printable || (need == Need::always && given.empty())) {
      return refuse(name, "is too long, empty or not printable");
    }
    value = given;
  }
  // An unknown word is refused; in a field that older engines lack it counts as the first word.
  template <typename Enum, typename Words>
  void word(const char* name, Enum& value, const Words& words, Need need = Need::always) {
    std::string given;
    text(name, given, need);
    const auto known = std::find(words.begin(), words.end(), given);
    if (known == words.end() && need == Need::always) return refuse(name, "is unknown");
    value = static_cast<Enum>(known == words.end() ? 0 : known - words.begin());
  }

  const json* find(const char* name) const {
    const auto found = object_.find(name);
    return found == object_.end() ? nullptr : &*found;
  }
  void refuse(std::string_view name, std::string_view what) {
    if (!wrong_) return;
    wrong_ =
        invalid("its statistics are wrong: {}{}{} {}", of_, of_.empty() ? "" : ".", name, what);
  }

 private:
  const json& object_;
  Status& wrong_;
  std::string_view of_;
};

void check_agreement(ReportReader& reader, const EngineView& view) {
  if (view.running.rank_sum > view.running.requests * view.running.rank_max) {
    reader.refuse("running.rank_sum", "is above requests x rank_max");
  }
  if (view.waiting_rank_sum > view.waiting.requests * view.waiting.rank_max) {
    reader.refuse("waiting.rank_sum", "is above requests x rank_max");
  }
  if (view.waiting.rank_tokens > view.waiting.tokens * view.waiting.rank_max) {
    reader.refuse("waiting.rank_tokens", "is above tokens x rank_max");
  }
  if (view.kv_free_tokens > view.kv_tokens) reader.refuse("kv_free_tokens", "is above kv_tokens");
}

void read_adapters(ReportReader& reader, Status& wrong, EngineReport& report) {
  const json* const list = reader.find("adapters");
  if (list == nullptr || !list->is_array() || list->size() > kMaxReportedAdapters) {
    return reader.refuse("adapters", "is no list, or too long");
  }
  report.adapters.reserve(list->size());
  for (const json& one : *list) {
    if (!one.is_object()) return reader.refuse("adapters", "has what is no object");
    ReportReader adapter(one, wrong, "adapters");
    each_adapter_field(report.adapters.emplace_back(), adapter);
    if (!wrong) return;
  }
  const json* const removed = reader.find("removed");
  if (removed == nullptr) return;
  if (!removed->is_array() || removed->size() > kMaxReportedAdapters) {
    return reader.refuse("removed", "is no list, or too long");
  }
  for (const json& name : *removed) {
    if (!name.is_string()) return reader.refuse("removed", "has what is no name");
    report.removed.push_back(name.get<std::string>());
  }
}

}  // namespace

const char* tier_word(AdapterTier tier) {
  return kTierWords.at(static_cast<std::size_t>(tier));
}

Result<EngineReport> read_report(std::string_view text) {
  if (text.size() > kMaxReportBytes || nests_deeper_than(text, kMaxJsonDepth)) {
    return invalid("its statistics are too long or nested too deep");
  }
  const json parsed = json::parse(text, nullptr, false);
  if (!parsed.is_object()) return invalid("its statistics are no JSON object");
  Status wrong;
  EngineReport report;
  ReportReader reader(parsed, wrong);
  reader.count("seq", report.seq, std::numeric_limits<std::int64_t>::max());
  each_report_field(report, reader);
  check_agreement(reader, report.view);
  read_adapters(reader, wrong, report);
  if (!wrong) return wrong;
  return report;
}

json report_head(const EngineReport& report) {
  json head;
  ReportWriter writer(head);
  each_report_field(report, writer);
  return head;
}

}  // namespace tandem
