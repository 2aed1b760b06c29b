#include "tools/adapters/adapter_views.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

namespace tandem {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

AdapterEntry make_entry(std::int64_t version) {
  AdapterEntry entry;
  entry.name = "sql";
  entry.version = version;
  entry.rank = 16;
  entry.modules = {"q_proj", "v_proj", "lm_head"};
  entry.digest = "0123456789abcdef0123456789abcdef";
  entry.dtype = "bf16";
  entry.bytes = 1'234'567;
  entry.source = "/adapters/sql";
  entry.owner = "ann";
  entry.created_unix = 86'400;
  return entry;
}

TEST(AdapterViews, RowsAreAligned) {
  EXPECT_EQ(aligned_rows({{"a", "bb", "c"}, {"aaa", "b", "cc"}}), "a    bb  c\naaa  b   cc\n");
  EXPECT_EQ(aligned_rows({{"\u00e9", "b"}, {"aa", "b"}}), "\u00e9   b\naa  b\n");
  EXPECT_EQ(aligned_rows({}), "");
}

TEST(AdapterViews, ATableHasARowForEach) {
  EXPECT_EQ(adapters_table({make_entry(12)}),
            "NAME  VERSION  RANK  MODULES      TYPE  SIZE     DIGEST\n"
            "sql   12       16    q,v,lm_head  bf16  1.23 MB  0123456789ab\n");
}

TEST(AdapterViews, OneAdapterIsShownInFull) {
  const std::string one = adapter_text({make_entry(1)});
  EXPECT_THAT(one, HasSubstr("digest   0123456789abcdef0123456789abcdef\n"));
  EXPECT_THAT(one, HasSubstr("added    1970-01-02 00:00:00 UTC\n"));
  EXPECT_THAT(one, Not(HasSubstr("VERSION")));
  const std::string two = adapter_text({make_entry(1), make_entry(3)});
  EXPECT_THAT(two, HasSubstr("version  3, the newest\n"));
  EXPECT_THAT(two, HasSubstr("\n1        0123456789ab  1970-01-02 00:00:00 UTC  /adapters/sql\n"));
}

TEST(AdapterViews, JsonHasAllMembers) {
  const auto json = adapter_json(make_entry(2));
  EXPECT_EQ(json.dump(),
            R"({"name":"sql","version":2,"rank":16,"modules":["q_proj","v_proj","lm_head"],)"
            R"("digest":"0123456789abcdef0123456789abcdef","dtype":"bf16","bytes":1234567,)"
            R"("source":"/adapters/sql","model":"","owner":"ann","created":86400})");
}

}  // namespace
}  // namespace tandem
