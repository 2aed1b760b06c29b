#include "scheduler/cluster/registry/etcd_messages.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/json/json_text.h"
#include "base/parse_number.h"
#include "base/text/base64.h"

namespace tandem::etcd {
namespace {

using nlohmann::json;

// gRPC's status codes.
enum class Code {
  invalid_argument = 3,
  deadline_exceeded = 4,
  not_found = 5,
  permission_denied = 7,
  resource_exhausted = 8,
  unavailable = 14,
  unauthenticated = 16,
};

StatusCode status_code(std::int64_t code, int http_status) {
  switch (static_cast<Code>(code)) {
    case Code::not_found:
      return StatusCode::not_found;
    case Code::permission_denied:
      return StatusCode::permission_denied;
    case Code::unauthenticated:
      return StatusCode::unauthenticated;
    case Code::resource_exhausted:
      return StatusCode::resource_exhausted;
    case Code::deadline_exceeded:
    case Code::unavailable:
      return StatusCode::unavailable;
    case Code::invalid_argument:
      return StatusCode::internal;  // a bug in our request
  }
  return http_status >= 500 ? StatusCode::unavailable : StatusCode::internal;
}

const json* member(const json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

// The member's bytes; empty if there is none.
Result<std::string> bytes(const json& object, const char* name) {
  const json* const found = member(object, name);
  if (found == nullptr) return std::string();
  if (!found->is_string()) return error(StatusCode::internal, "'{}' is no string", name);
  return from_base64(found->get_ref<const std::string&>());
}

Result<std::string> key_of(const json& kv, std::string_view prefix) {
  TANDEM_ASSIGN(std::string key, bytes(kv, "key"));
  if (!key.starts_with(prefix)) return error(StatusCode::internal, "a key that was not asked for");
  key.erase(0, prefix.size());
  return key;
}

}  // namespace

Result<json> parse(std::string_view text) {
  json answer;
  if (!nests_deeper_than(text, kMaxJsonDepth)) answer = json::parse(text, nullptr, false);
  if (answer.is_object()) return answer;
  return error(StatusCode::unavailable, "the server that answers is not etcd: {:.80}", text);
}

std::int64_t number(const json& object, const char* name) {
  const json* const found = member(object, name);
  if (found == nullptr) return 0;
  if (found->is_number_integer()) return found->get<std::int64_t>();
  if (!found->is_string()) return 0;
  return parse_number<std::int64_t>(found->get_ref<const std::string&>()).value_or(0);
}

bool is_true(const json& object, const char* name) {
  const json* const found = member(object, name);
  return found != nullptr && found->is_boolean() && found->get<bool>();
}

std::int64_t revision(const json& answer) {
  const json* const header = member(answer, "header");
  return header == nullptr ? 0 : number(*header, "revision");
}

// A call fails with {"error": "...", "code": 5}, a stream with {"error": {"grpc_code": 5,
// "message": "..."}}. That is the format of etcd's gateways since 3.4; since 3.5 a call's text is
// in "message" and there is no "error".
Status error_of(const json& answer, int http_status) {
  const json* const found = member(answer, "error");
  if (found == nullptr && http_status == 200) return {};
  const json& holder = found != nullptr && found->is_object() ? *found : answer;
  std::string message = found == nullptr ? fmt::format("HTTP status {}", http_status) : "an error";
  for (const json* const text : {found, member(holder, "message")}) {
    if (text != nullptr && text->is_string()) message = text->get<std::string>();
  }
  std::int64_t code = number(holder, "grpc_code");
  if (code == 0) code = number(holder, "code");
  const StatusCode status = status_code(code, http_status);
  if (status != StatusCode::resource_exhausted) return {status, std::move(message)};
  return error(status, "{}; compact and defragment it (etcdctl), or raise its quota", message);
}

json range_request(std::string_view begin, std::string_view end, std::int64_t limit,
                   std::int64_t revision) {
  return {{"key", to_base64(begin)},
          {"range_end", to_base64(end)},
          {"limit", std::to_string(limit)},
          {"revision", std::to_string(revision)}};
}

json one_key_request(std::string_view key) {
  return {{"key", to_base64(key)}};
}

json transaction_request(const StoreWrite& write, std::string_view prefix) {
  const auto key = [&](const std::string& name) { return to_base64(std::string(prefix) + name); };
  json compare = json::array();
  for (const StoreWrite::Expectation& expected : write.expected) {
    compare.push_back({{"target", "MOD"},
                       {"result", "EQUAL"},
                       {"key", key(expected.key)},
                       {"mod_revision", std::to_string(expected.revision)}});
  }
  json success = json::array();
  for (const std::string& removal : write.removals) {
    success.push_back({{"request_delete_range", {{"key", key(removal)}}}});
  }
  for (const StoreWrite::Put& put : write.puts) {
    success.push_back({{"request_put",
                        {{"key", key(put.key)},
                         {"value", to_base64(put.value)},
                         {"lease", std::to_string(put.lease)}}}});
  }
  return {{"compare", std::move(compare)}, {"success", std::move(success)}};
}

json watch_request(std::string_view begin, std::string_view end, std::int64_t revision) {
  return {{"create_request",
           {{"key", to_base64(begin)},
            {"range_end", to_base64(end)},
            {"start_revision", std::to_string(revision)}}}};
}

Result<StoredValue> stored_value(const json& kv, std::string_view prefix) {
  StoredValue stored;
  TANDEM_ASSIGN(stored.key, key_of(kv, prefix));
  TANDEM_ASSIGN(stored.value, bytes(kv, "value"));
  stored.revision = number(kv, "mod_revision");
  stored.lease = number(kv, "lease");
  return stored;
}

Status take_events(const json& result, std::string_view prefix, StoreNews& news) {
  const json* const events = member(result, "events");
  if (events == nullptr || !events->is_array()) return {};
  for (const json& event : *events) {
    const json* const kv = member(event, "kv");
    if (kv == nullptr) return error(StatusCode::internal, "an event without a key");
    StoreChange change;
    TANDEM_ASSIGN(change.key, key_of(*kv, prefix));
    const json* const type = member(event, "type");
    if (type == nullptr || !type->is_string() || type->get<std::string>() != "DELETE") {
      TANDEM_ASSIGN(change.value, bytes(*kv, "value"));
    }
    news.changes.push_back(std::move(change));
    // The header's revision is not used: it is the store's, which may be ahead of this answer.
    news.revision = std::max(news.revision, number(*kv, "mod_revision"));
  }
  return {};
}

}  // namespace tandem::etcd
