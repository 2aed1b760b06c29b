#include "scheduler/cluster/registry/registry_entries.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/json/json_text.h"
#include "base/parse_number.h"
#include "base/text/utf8.h"

namespace tandem {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxNameBytes = 128;
constexpr std::size_t kMaxIdBytes = 64;
constexpr std::size_t kMaxTextBytes = 4096;
constexpr std::size_t kMaxModules = 64;
constexpr std::size_t kDigestDigits = 32;
constexpr std::int64_t kMaxRank = 1 << 16;
constexpr std::size_t kMaxEntryBytes = 64 << 10;

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool is_word(std::string_view text, std::size_t max_bytes, std::string_view also) {
  return !text.empty() && text.size() <= max_bytes && std::ranges::all_of(text, [&](char c) {
    return is_letter_or_digit(c) || also.find(c) != std::string_view::npos;
  });
}

// Checks a line that is shown to people: it goes to terminals and logs.
Status check_line(const char* what, std::string_view text) {
  const bool has_controls = std::ranges::any_of(
      text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
  if (text.size() <= kMaxTextBytes && !has_controls && utf8::valid(text)) return {};
  return invalid("{} must be one line of UTF-8 of at most {} bytes", what, kMaxTextBytes);
}

Status check_amount(const char* what, std::int64_t value) {
  return value >= 0 ? Status() : invalid("{} must not be negative", what);
}

// Reads members of an object and remembers the first invalid one.
class Members {
 public:
  static Result<Members> of(std::string_view text) {
    if (text.size() > kMaxEntryBytes) return invalid("over {} bytes", kMaxEntryBytes);
    json object;
    if (!nests_deeper_than(text, kMaxJsonDepth)) object = json::parse(text, nullptr, false);
    if (!object.is_object()) return invalid("not a JSON object");
    return Members(std::move(object));
  }

  void take(const char* name, std::string& into) {
    const json* const found = find(name);
    if (found == nullptr || !found->is_string()) return refuse(name, "a string");
    into = found->get<std::string>();
  }
  void take(const char* name, std::int64_t& into) {
    const json* const found = find(name);
    const bool fits = found != nullptr && found->is_number_integer() &&
                      (!found->is_number_unsigned() ||
                       found->get<std::uint64_t>() <=
                           static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()));
    if (!fits) return refuse(name, "a whole number");
    into = found->get<std::int64_t>();
  }
  void take(const char* name, std::uint64_t& into) {
    std::int64_t value = 0;
    take(name, value);
    if (value < 0) return refuse(name, "a whole number from 0");
    into = static_cast<std::uint64_t>(value);
  }
  void take(const char* name, std::vector<std::string>& into) {
    const json* const found = find(name);
    if (found == nullptr || !found->is_array()) return refuse(name, "a list of strings");
    for (const json& item : *found) {
      if (!item.is_string()) return refuse(name, "a list of strings");
      into.push_back(item.get<std::string>());
    }
  }
  const Status& status() const { return status_; }

 private:
  explicit Members(json object) : object_(std::move(object)) {}
  const json* find(const char* name) const {
    const auto found = object_.find(name);
    return found == object_.end() ? nullptr : &*found;
  }
  void refuse(const char* name, const char* wanted) {
    if (status_) status_ = invalid("'{}' is not {}", name, wanted);
  }

  json object_;
  Status status_;
};

}  // namespace

std::string versioned_name(std::string_view name, std::int64_t version) {
  return fmt::format("{}@{}", name, version);
}

WantedVersion parse_versioned_name(std::string_view text) {
  const std::size_t at = text.rfind('@');
  if (at == std::string_view::npos) return {std::string(text)};
  WantedVersion wanted{std::string(text.substr(0, at))};
  wanted.version = parse_number<std::int64_t>(text.substr(at + 1)).value_or(0);
  if (wanted.version > 0 && versioned_name(wanted.name, wanted.version) == text) return wanted;
  return {std::string(text)};
}

Status check_adapter_name(std::string_view name) {
  if (is_word(name, kMaxNameBytes, "._:/-")) return {};
  return invalid("an adapter's name must be 1 to {} letters, digits, '.', '_', ':', '/' and '-'",
                 kMaxNameBytes);
}

Status check(const AdapterEntry& entry) {
  TANDEM_TRY(check_adapter_name(entry.name));
  TANDEM_TRY(check_amount("version", entry.version));
  if (entry.rank < 1 || entry.rank > kMaxRank) {
    return invalid("rank {} is not in 1..{}", entry.rank, kMaxRank);
  }
  const bool named = std::ranges::all_of(
      entry.modules, [](const std::string& module) { return is_word(module, kMaxIdBytes, "._"); });
  if (entry.modules.empty() || entry.modules.size() > kMaxModules || !named) {
    return invalid("modules must be 1 to {} names", kMaxModules);
  }
  const bool hex = std::ranges::all_of(
      entry.digest, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
  if (entry.digest.size() != kDigestDigits || !hex) {
    return invalid("digest must be {} hexadecimal digits", kDigestDigits);
  }
  if (!is_word(entry.dtype, kMaxIdBytes, "_")) return invalid("dtype must be the name of a type");
  if (entry.bytes > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    return invalid("bytes: {} is too many", entry.bytes);
  }
  TANDEM_TRY(check_line("source", entry.source));
  TANDEM_TRY(check_line("model", entry.model));
  TANDEM_TRY(check_line("owner", entry.owner));
  return check_amount("created", entry.created_unix);
}

Status check(const EngineEntry& entry) {
  if (!is_word(entry.id, kMaxIdBytes, "._-")) {
    return invalid("an engine's id must be 1 to {} letters, digits, '.', '_' and '-'", kMaxIdBytes);
  }
  if (entry.address.empty()) return invalid("engine '{}' has no address", entry.id);
  TANDEM_TRY(check_line("address", entry.address));
  TANDEM_TRY(check_line("model", entry.model));
  TANDEM_TRY(check_amount("max_requests", entry.capacity.max_requests));
  TANDEM_TRY(check_amount("kv_tokens", entry.capacity.kv_tokens));
  return check_amount("adapter_bytes", entry.capacity.adapter_bytes);
}

std::string to_json(const AdapterEntry& entry) {
  return json{{"name", entry.name},       {"version", entry.version},     {"rank", entry.rank},
              {"modules", entry.modules}, {"digest", entry.digest},       {"dtype", entry.dtype},
              {"bytes", entry.bytes},     {"source", entry.source},       {"model", entry.model},
              {"owner", entry.owner},     {"created", entry.created_unix}}
      .dump();
}

std::string to_json(const EngineEntry& entry) {
  return json{{"id", entry.id},
              {"address", entry.address},
              {"model", entry.model},
              {"max_requests", entry.capacity.max_requests},
              {"kv_tokens", entry.capacity.kv_tokens},
              {"adapter_bytes", entry.capacity.adapter_bytes}}
      .dump();
}

Result<AdapterEntry> parse_adapter_entry(std::string_view text) {
  TANDEM_ASSIGN(Members members, Members::of(text));
  AdapterEntry entry;
  members.take("name", entry.name);
  members.take("version", entry.version);
  members.take("rank", entry.rank);
  members.take("modules", entry.modules);
  members.take("digest", entry.digest);
  members.take("dtype", entry.dtype);
  members.take("bytes", entry.bytes);
  members.take("source", entry.source);
  members.take("model", entry.model);
  members.take("owner", entry.owner);
  members.take("created", entry.created_unix);
  TANDEM_TRY(members.status());
  TANDEM_TRY(check(entry));
  return entry;
}

Result<EngineEntry> parse_engine_entry(std::string_view text) {
  TANDEM_ASSIGN(Members members, Members::of(text));
  EngineEntry entry;
  members.take("id", entry.id);
  members.take("address", entry.address);
  members.take("model", entry.model);
  members.take("max_requests", entry.capacity.max_requests);
  members.take("kv_tokens", entry.capacity.kv_tokens);
  members.take("adapter_bytes", entry.capacity.adapter_bytes);
  TANDEM_TRY(members.status());
  TANDEM_TRY(check(entry));
  return entry;
}

}  // namespace tandem
