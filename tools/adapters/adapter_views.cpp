#include "tools/adapters/adapter_views.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <ctime>

#include "base/text/utf8.h"

namespace tandem {
namespace {

constexpr std::size_t kShortDigest = 12;

std::string megabytes(std::uint64_t bytes) {
  return fmt::format("{:.2f} MB", static_cast<double>(bytes) / 1e6);
}

// Example: "q,k,v,o". The ending that all names share is left out.
std::string short_modules(const std::vector<std::string>& modules) {
  constexpr std::string_view kEnd = "_proj";
  std::vector<std::string_view> names(modules.begin(), modules.end());
  for (std::string_view& name : names) {
    if (name.ends_with(kEnd)) name.remove_suffix(kEnd.size());
  }
  return fmt::format("{}", fmt::join(names, ","));
}

// Example: "2026-11-22 21:04:05 UTC".
std::string utc_text(std::int64_t unix_seconds) {
  const auto time = static_cast<std::time_t>(unix_seconds);
  std::tm parts{};
  if (gmtime_r(&time, &parts) == nullptr) return std::to_string(unix_seconds);
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}:{:02} UTC", parts.tm_year + 1900,
                     parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
}

}  // namespace

std::string aligned_rows(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], utf8::length(row[i]));
    }
  }
  std::string text;
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      text += row[i];
      if (i + 1 < row.size()) text.append(widths[i] + 2 - utf8::length(row[i]), ' ');
    }
    text += '\n';
  }
  return text;
}

std::string adapters_table(const std::vector<AdapterEntry>& entries) {
  std::vector<std::vector<std::string>> rows = {
      {"NAME", "VERSION", "RANK", "MODULES", "TYPE", "SIZE", "DIGEST"}};
  for (const AdapterEntry& entry : entries) {
    rows.push_back({entry.name, std::to_string(entry.version), std::to_string(entry.rank),
                    short_modules(entry.modules), entry.dtype, megabytes(entry.bytes),
                    entry.digest.substr(0, kShortDigest)});
  }
  return aligned_rows(rows);
}

std::string adapter_text(const std::vector<AdapterEntry>& versions) {
  const AdapterEntry& newest = versions.back();
  std::string text = aligned_rows({
      {"name", newest.name},
      {"version", fmt::format("{}{}", newest.version, versions.size() > 1 ? ", the newest" : "")},
      {"rank", std::to_string(newest.rank)},
      {"modules", fmt::format("{}", fmt::join(newest.modules, ", "))},
      {"size", fmt::format("{} in {}", megabytes(newest.bytes), newest.dtype)},
      {"digest", newest.digest},
      {"source", newest.source},
      {"model", newest.model},
      {"owner", newest.owner},
      {"added", utc_text(newest.created_unix)},
  });
  if (versions.size() < 2) return text;
  std::vector<std::vector<std::string>> rows = {{"VERSION", "DIGEST", "ADDED", "SOURCE"}};
  for (const AdapterEntry& entry : versions) {
    rows.push_back({std::to_string(entry.version), entry.digest.substr(0, kShortDigest),
                    utc_text(entry.created_unix), entry.source});
  }
  return text + '\n' + aligned_rows(rows);
}

nlohmann::ordered_json adapter_json(const AdapterEntry& entry) {
  return {{"name", entry.name},       {"version", entry.version},     {"rank", entry.rank},
          {"modules", entry.modules}, {"digest", entry.digest},       {"dtype", entry.dtype},
          {"bytes", entry.bytes},     {"source", entry.source},       {"model", entry.model},
          {"owner", entry.owner},     {"created", entry.created_unix}};
}

nlohmann::ordered_json adapters_json(const std::vector<AdapterEntry>& entries) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const AdapterEntry& entry : entries) list.push_back(adapter_json(entry));
  return list;
}

}  // namespace tandem
