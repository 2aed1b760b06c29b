// What the registry knows of an adapter and of an engine, and how that is written down: JSON, the
// same in each store.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tandem {

// One version of an adapter. Versions of a name count from 1, and no number is given twice.
struct AdapterEntry {
  std::string name;  // 1 to 128 letters, digits and ._:/-
  std::int64_t version = 0;
  std::int64_t rank = 0;             // the largest of its modules
  std::vector<std::string> modules;  // "q_proj", ...
  std::string
      digest;  // 32 hex digits: of the weights, converted to `dtype` and laid out for serving
  std::string dtype;        // "bf16"
  std::uint64_t bytes = 0;  // that the weights take in that type
  std::string source;       // folder that it was read from
  std::string model;        // checkpoint that it was checked against
  std::string owner;
  std::int64_t created_unix = 0;  // seconds since the epoch

  bool operator==(const AdapterEntry&) const = default;
};

struct EngineCapacity {
  std::int64_t max_requests = 0;
  std::int64_t kv_tokens = 0;
  std::int64_t adapter_bytes = 0;  // of the host tier

  bool operator==(const EngineCapacity&) const = default;
};

struct EngineEntry {
  std::string id;       // 1 to 64 letters, digits and ._-; another one at each start
  std::string address;  // "http://10.0.0.7:8000"
  std::string model;    // as requests name it
  EngineCapacity capacity;

  bool operator==(const EngineEntry&) const = default;
};

// How requests ask for one version of an adapter: "sql@2", where "sql" is the newest. '@' is in no
// name.
std::string versioned_name(std::string_view name, std::int64_t version);
struct WantedVersion {
  std::string name;
  std::int64_t version = 0;  // 0: the newest
};
// Of what is no number in its only spelling, all is the name: one that no adapter has.
WantedVersion parse_versioned_name(std::string_view text);

// What is wrong with an entry that is to be written. A version of 0 is fine.
Status check_adapter_name(std::string_view name);
Status check(const AdapterEntry& entry);
Status check(const EngineEntry& entry);

std::string to_json(const AdapterEntry& entry);
std::string to_json(const EngineEntry& entry);
// Refuses what to_json() does not write; unknown members are read past, as a later version may
// have added them.
Result<AdapterEntry> parse_adapter_entry(std::string_view json);
Result<EngineEntry> parse_engine_entry(std::string_view json);

}  // namespace tandem
