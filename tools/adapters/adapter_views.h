// Entries of the registry as text for people, and as JSON for programs.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "scheduler/cluster/registry/registry_entries.h"

namespace tandem {

// A row for each, columns aligned, a heading first.
std::string adapters_table(const std::vector<AdapterEntry>& entries);
// The newest in full and the others in a row each. Oldest first; at least one.
std::string adapter_text(const std::vector<AdapterEntry>& versions);
nlohmann::ordered_json adapter_json(const AdapterEntry& entry);
nlohmann::ordered_json adapters_json(const std::vector<AdapterEntry>& entries);

// Columns as wide as their widest cell, two spaces between; the last is not padded.
std::string aligned_rows(const std::vector<std::vector<std::string>>& rows);

}  // namespace tandem
