#include "scheduler/cluster/registry/etcd_messages.h"

#include <gmock/gmock.h>

#include <random>
#include <string>

#include "tests/support/test_seed.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;

TEST(EtcdMessages, ErrorsAreReadInBothShapes) {
  const auto error = [](const char* text, int status) {
    return etcd::error_of(*etcd::parse(text), status);
  };
  EXPECT_TRUE(error("{}", 200).ok());
  EXPECT_EQ(error(R"({"error":"requested lease not found","code":5})", 404).code(),
            StatusCode::not_found);
  EXPECT_EQ(error(R"({"error":{"grpc_code":14,"message":"no leader"}})", 200).code(),
            StatusCode::unavailable);
  const Status full = error(R"({"error":"mvcc: database space exceeded","code":8})", 429);
  EXPECT_EQ(full.code(), StatusCode::resource_exhausted);
  EXPECT_THAT(full.message(), HasSubstr("database space exceeded; compact and defragment"));
  // The message of etcd 3.5 and later.
  const Status lapsed = error(R"({"code":5,"message":"requested lease not found"})", 404);
  EXPECT_EQ(lapsed.code(), StatusCode::not_found);
  EXPECT_EQ(lapsed.message(), "requested lease not found");
  EXPECT_EQ(error(R"({"error":{"code":14,"message":"no leader","details":[]}})", 200).code(),
            StatusCode::unavailable);
  EXPECT_EQ(error("{}", 503).code(), StatusCode::unavailable);
  EXPECT_EQ(error("{}", 404).code(), StatusCode::internal);
  EXPECT_THAT(etcd::parse("<html>").status().message(), HasSubstr("not etcd: <html>"));
}

TEST(EtcdMessages, NumbersAreStringsOrNumbers) {
  const auto json =
      *etcd::parse(R"({"a": "12", "b": 13, "c": "x", "d": {}, "e": "9223372036854775808"})");
  EXPECT_EQ(etcd::number(json, "a"), 12);
  EXPECT_EQ(etcd::number(json, "b"), 13);
  for (const char* const none : {"c", "d", "e", "f"}) EXPECT_EQ(etcd::number(json, none), 0);
}

TEST(EtcdMessages, EventsAreNewsOfTheirOwnRevision) {
  // "p/a" was put at revision 7, "p/b" deleted at 8; the store is at 20 already.
  const auto answer = etcd::parse(
      R"({"header":{"revision":"20"},"events":[
          {"kv":{"key":"cC9h","mod_revision":"7","value":"eA=="}},
          {"type":"DELETE","kv":{"key":"cC9i","mod_revision":"8"}}]})");
  ASSERT_TRUE(answer.ok());
  StoreNews news{{}, 5, false};
  ASSERT_TRUE(etcd::take_events(*answer, "p/", news).ok());
  EXPECT_EQ(news.revision, 8);
  ASSERT_EQ(news.changes.size(), 2U);
  EXPECT_EQ(news.changes[0].key, "a");
  EXPECT_EQ(news.changes[0].value, "x");
  EXPECT_EQ(news.changes[1].key, "b");
  EXPECT_FALSE(news.changes[1].value.has_value());
  EXPECT_FALSE(etcd::take_events(*answer, "q/", news).ok());
}

}  // namespace
}  // namespace tandem
