// The registry's data about an adapter and an engine, and its JSON format, which is the same in
// each store.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tandem {

// One version of an adapter. Versions of a name count from 1, and no number is used twice.
struct AdapterEntry {
  std::string name;  // 1 to 128 letters, digits and ._:/-
  std::int64_t version = 0;
  std::int64_t rank = 0;             // the largest of its modules
  std::vector<std::string> modules;  // "q_proj", ...
  std::string
      digest;  // 32 hex digits: hash of the weights, converted to `dtype` and laid out for serving
  std::string dtype;        // "bf16"
  std::uint64_t bytes = 0;  // size of the weights in that type
  std::string source;       // folder from which it was read
  std::string model;        // checkpoint against which it was checked
  std::string owner;
  std::int64_t created_unix = 0;  // seconds since the epoch

  bool operator==(const AdapterEntry&) const = default;
};

struct EngineCapacity {
  std::int64_t max_requests = 0;
  std::int64_t kv_tokens = 0;
  std::int64_t adapter_bytes = 0;  // size of the host tier

  bool operator==(const EngineCapacity&) const = default;
};

struct EngineEntry {
  std::string id;       // 1 to 64 letters, digits and ._-; new at each start
  std::string address;  // "http://10.0.0.7:8000"
  std::string model;    // the name that requests use
  EngineCapacity capacity;

  bool operator==(const EngineEntry&) const = default;
};

// The name by which a request asks for one version of an adapter: "sql@2"; "sql" is the newest.
// Names do not contain '@'.
std::string versioned_name(std::string_view name, std::int64_t version);
struct WantedVersion {
  std::string name;
  std::int64_t version = 0;  // 0: the newest
};
// If the text after '@' is not a canonical number, the whole text is the name, which no adapter
// has.
WantedVersion parse_versioned_name(std::string_view text);

// Errors of an entry that is to be written. A version of 0 is allowed.
Status check_adapter_name(std::string_view name);
Status check(const AdapterEntry& entry);
Status check(const EngineEntry& entry);

std::string to_json(const AdapterEntry& entry);
std::string to_json(const EngineEntry& entry);
// Refuses anything that to_json() does not write, except unknown members, which a later version may
// have added.
Result<AdapterEntry> parse_adapter_entry(std::string_view json);
Result<EngineEntry> parse_engine_entry(std::string_view json);

}  // namespace tandem
