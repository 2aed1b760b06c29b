#include "base/text/id_list.h"

#include <gmock/gmock.h>

namespace tandem {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(IdList, ReadsRangesAndWritesThemShortest) {
  EXPECT_THAT(*parse_id_list("0-3,8,2"), ElementsAre(0, 1, 2, 3, 8));
  EXPECT_THAT(*parse_id_list(""), IsEmpty());
  for (const char* text : {"a", "1,", ",1", "3-1", "-1", "1--2", "1 2", "99999999"}) {
    EXPECT_FALSE(parse_id_list(text).ok()) << text;
  }
  std::string hostile = "0-1048576";
  for (int i = 0; i < 8; ++i) hostile += "," + hostile;
  EXPECT_FALSE(parse_id_list(hostile).ok()) << "it would fill the memory";
  EXPECT_EQ(format_id_list({8, 0, 1, 2, 1, 4, 5}), "0-2,4-5,8");
  EXPECT_EQ(format_id_list({}), "");
}

TEST(IdList, FindsWhatTwoHaveInCommonInWhateverOrderTheyCome) {
  EXPECT_THAT(common_ids({8, 1, 3, 3}, {3, 0, 8, 3}), ElementsAre(3, 8));
  EXPECT_THAT(common_ids({1, 2}, {3}), IsEmpty());
  EXPECT_THAT(common_ids({}, {3}), IsEmpty());
}

}  // namespace
}  // namespace tandem
