// What etcd's JSON gateway is asked and answers: keys and values in base64, numbers as strings,
// and members that are zero left out.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/status.h"
#include "scheduler/registry/registry_store.h"

namespace tandem::etcd {

std::string to_base64(std::string_view bytes);
Result<std::string> from_base64(std::string_view text);

// Of an answer's line or body; not an object, or nested too deep: a failure.
Result<nlohmann::json> parse(std::string_view text);
// A member that is a number or a string of one; 0 where there is none.
std::int64_t number(const nlohmann::json& object, const char* member);
bool is_true(const nlohmann::json& object, const char* member);
std::int64_t revision(const nlohmann::json& answer);  // of its header
// The gateway's error, in either of its shapes; ok where there is none.
Status error_of(const nlohmann::json& answer, int http_status);

// Of keys that begin with `begin`, up to `end`, so many at most; as of a revision, or now with 0.
nlohmann::json range_request(std::string_view begin, std::string_view end, std::int64_t limit,
                             std::int64_t revision);
nlohmann::json one_key_request(std::string_view key);
// Each key gets `prefix` before it.
nlohmann::json transaction_request(const StoreWrite& write, std::string_view prefix);
nlohmann::json watch_request(std::string_view begin, std::string_view end, std::int64_t revision);

// One of a range's `kvs`, without the prefix.
Result<StoredValue> stored_value(const nlohmann::json& kv, std::string_view prefix);
// Appends an answer's events to the news, and its revision.
Status take_events(const nlohmann::json& result, std::string_view prefix, StoreNews& news);

}  // namespace tandem::etcd
