// Requests and answers of etcd's JSON gateway: keys and values in base64, numbers as strings, zero
// members omitted.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/status.h"
#include "scheduler/cluster/registry/registry_store.h"

namespace tandem::etcd {

// Parses a line or body of an answer. Fails if it is not an object or is nested too deep.
Result<nlohmann::json> parse(std::string_view text);
// A member that is a number or a string with a number; 0 if there is none.
std::int64_t number(const nlohmann::json& object, const char* member);
bool is_true(const nlohmann::json& object, const char* member);
std::int64_t revision(const nlohmann::json& answer);  // from its header
// The gateway's error, in either format; ok if there is none.
Status error_of(const nlohmann::json& answer, int http_status);

// At most `limit` keys from `begin` up to `end`; as of `revision`, or the current one if it is 0.
nlohmann::json range_request(std::string_view begin, std::string_view end, std::int64_t limit,
                             std::int64_t revision);
nlohmann::json one_key_request(std::string_view key);
// `prefix` is put before each key.
nlohmann::json transaction_request(const StoreWrite& write, std::string_view prefix);
nlohmann::json watch_request(std::string_view begin, std::string_view end, std::int64_t revision);

// Parses one of a range's `kvs` and removes the prefix from its key.
Result<StoredValue> stored_value(const nlohmann::json& kv, std::string_view prefix);
// Appends an answer's events to the news and updates the revision.
Status take_events(const nlohmann::json& result, std::string_view prefix, StoreNews& news);

}  // namespace tandem::etcd
