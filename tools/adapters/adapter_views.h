// Entries of the registry as text for people, and as JSON for programs.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "scheduler/cluster/registry/registry_entries.h"

namespace tandem {

// A table with a heading and a row per entry.
std::string adapters_table(const std::vector<AdapterEntry>& entries);
// The newest version in full and a row for each other. `versions`: oldest first, at least one.
std::string adapter_text(const std::vector<AdapterEntry>& versions);
nlohmann::ordered_json adapter_json(const AdapterEntry& entry);
nlohmann::ordered_json adapters_json(const std::vector<AdapterEntry>& entries);

// Pads columns to their widest cell, with two spaces between columns; the last is not padded.
std::string aligned_rows(const std::vector<std::vector<std::string>>& rows);

}  // namespace tandem
