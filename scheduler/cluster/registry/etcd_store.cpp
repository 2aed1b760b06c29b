#include "scheduler/cluster/registry/etcd_store.h"

#include <algorithm>

#include "base/check.h"
#include "base/clock.h"
#include "scheduler/cluster/registry/etcd_messages.h"

namespace tandem {
namespace {

using nlohmann::json;

constexpr int kHttpOk = 200;
// Values per request: an answer stays far below http_post()'s limit.
constexpr std::int64_t kPage = 2000;
// etcd serves watchers that begin in the past every 100 ms.
constexpr std::chrono::milliseconds kLeastPatience{250};

}  // namespace

template <typename Ask>
Status EtcdStore::ask_in_turn(const Ask& ask) {
  TANDEM_CHECK(!options_.endpoints.empty(), "no endpoint");
  const std::size_t count = options_.endpoints.size();
  const std::size_t first = preferred_.load(std::memory_order_relaxed);
  std::string said;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t at = (first + i) % count;
    const Status status = ask(options_.endpoints[at]);
    if (status.code() != StatusCode::unavailable) {
      preferred_.store(at, std::memory_order_relaxed);
      return status.with_context("etcd");
    }
    if (!said.empty()) said += "; ";
    said += status.message();
  }
  preferred_.store((first + 1) % count, std::memory_order_relaxed);
  return error(StatusCode::unavailable, "etcd: {}; is it running, and reachable from here?", said);
}

Result<json> EtcdStore::call_one(const HttpEndpoint& endpoint, const char* path,
                                 const json& request) const {
  const TimePoint deadline = std::chrono::steady_clock::now() + options_.timeout;
  TANDEM_ASSIGN(const HttpAnswer answer, http_post(endpoint, path, request.dump(), deadline));
  Result<json> parsed = etcd::parse(answer.body);
  if (!parsed) return parsed.status().with_context(endpoint.text());
  if (Status status = etcd::error_of(*parsed, answer.status); !status) {
    return status.with_context(endpoint.text());
  }
  return parsed;
}

Result<json> EtcdStore::call(const char* path, const json& request) {
  json answer;
  TANDEM_TRY(ask_in_turn([&](const HttpEndpoint& endpoint) -> Status {
    TANDEM_ASSIGN(answer, call_one(endpoint, path, request));
    return {};
  }));
  return answer;
}

Result<StoreRead> EtcdStore::read(std::string_view prefix) {
  std::string begin = options_.prefix + std::string(prefix);
  const std::string end = end_of_prefix(begin);
  StoreRead found;
  for (;;) {
    TANDEM_ASSIGN(const json answer,
                  call("/v3/kv/range", etcd::range_request(begin, end, kPage, found.revision)));
    if (found.revision == 0) found.revision = etcd::revision(answer);
    const auto kvs = answer.find("kvs");
    if (kvs == answer.end() || !kvs->is_array() || kvs->empty()) return found;
    for (const json& kv : *kvs) {
      TANDEM_ASSIGN(StoredValue stored, etcd::stored_value(kv, options_.prefix));
      found.values.push_back(std::move(stored));
    }
    if (!etcd::is_true(answer, "more")) return found;
    begin = options_.prefix + found.values.back().key + '\0';
  }
}

Result<std::optional<StoredValue>> EtcdStore::find(std::string_view key) {
  TANDEM_ASSIGN(const json answer,
                call("/v3/kv/range", etcd::one_key_request(options_.prefix + std::string(key))));
  const auto kvs = answer.find("kvs");
  if (kvs == answer.end() || !kvs->is_array() || kvs->empty()) return std::optional<StoredValue>();
  TANDEM_ASSIGN(StoredValue stored, etcd::stored_value(kvs->front(), options_.prefix));
  return std::optional<StoredValue>(std::move(stored));
}

Result<bool> EtcdStore::write(const StoreWrite& write) {
  TANDEM_ASSIGN(const json answer,
                call("/v3/kv/txn", etcd::transaction_request(write, options_.prefix)));
  return etcd::is_true(answer, "succeeded");
}

Result<std::int64_t> EtcdStore::grant_lease(std::chrono::seconds ttl) {
  TANDEM_ASSIGN(const json answer, call("/v3/lease/grant", {{"TTL", std::to_string(ttl.count())}}));
  const std::int64_t lease = etcd::number(answer, "ID");
  if (lease == 0) return error(StatusCode::internal, "etcd: a lease without an id");
  return lease;
}

Status EtcdStore::keep_lease(std::int64_t lease) {
  TANDEM_ASSIGN(const json answer, call("/v3/lease/keepalive", {{"ID", std::to_string(lease)}}));
  const auto result = answer.find("result");
  if (result != answer.end() && etcd::number(*result, "TTL") > 0) return {};
  return error(StatusCode::not_found, "lease {} has lapsed", lease);
}

Status EtcdStore::end_lease(std::int64_t lease) {
  const Status status = call("/v3/lease/revoke", {{"ID", std::to_string(lease)}}).status();
  return status.code() == StatusCode::not_found ? Status() : status;
}

Status EtcdStore::watch_one(const HttpEndpoint& endpoint, TimePoint deadline,
                            StoreNews& news) const {
  const json request =
      etcd::watch_request(options_.prefix, end_of_prefix(options_.prefix), news.revision + 1);
  Status status;
  const auto listener = [&](std::string_view line) {
    const Result<json> answer = etcd::parse(line);
    status = answer ? etcd::error_of(*answer, kHttpOk) : answer.status();
    if (!status) return false;
    const auto result = answer->find("result");
    if (result == answer->end()) return true;
    news.lost = etcd::number(*result, "compact_revision") > 0;
    if (news.lost) return false;
    status = etcd::is_true(*result, "canceled")
                 ? error(StatusCode::unavailable, "it cancelled the watch")
                 : etcd::take_events(*result, options_.prefix, news);
    return status && news.changes.empty();
  };
  const auto answer = http_post(endpoint, "/v3/watch", request.dump(), deadline, listener);
  if (!answer) return answer.status();
  if (status && answer->complete && !news.lost && news.changes.empty()) {
    const Result<json> said = etcd::parse(answer->body);
    status = said ? etcd::error_of(*said, answer->status) : said.status();
    if (status) status = error(StatusCode::unavailable, "it ended the watch");
  }
  return status.with_context(endpoint.text());
}

// First checks that an endpoint answers, and reads the store's revision: a cluster that was set up
// anew counts from 1 again, and a watch from a future revision would wait for it.
Result<StoreNews> EtcdStore::watch(std::int64_t since, std::chrono::milliseconds patience) {
  TANDEM_ASSIGN(const json now, call("/v3/kv/range", etcd::one_key_request(options_.prefix)));
  StoreNews news{{}, since, etcd::revision(now) < since};
  if (news.lost) return news;
  const TimePoint deadline = std::chrono::steady_clock::now() + std::max(patience, kLeastPatience);
  const HttpEndpoint& endpoint = options_.endpoints[preferred_.load(std::memory_order_relaxed)];
  TANDEM_TRY(watch_one(endpoint, deadline, news).with_context("etcd"));
  return news;
}

}  // namespace tandem
