#include "base/status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

namespace tandem {
namespace {

using ::testing::HasSubstr;

TEST(ErrnoStatus, SaysWhoseMistakeItIsAndTheRemedy) {
  const auto code = [](int number) { return errno_status("open", number).code(); };
  for (const int number : {ELOOP, ENAMETOOLONG, EISDIR}) {
    EXPECT_EQ(code(number), StatusCode::invalid_argument) << number;
  }
  for (const int number : {ENOENT, ENOTDIR}) EXPECT_EQ(code(number), StatusCode::not_found);
  for (const int number : {EACCES, EPERM}) EXPECT_EQ(code(number), StatusCode::permission_denied);
  for (const int number : {EMFILE, ENFILE, ESTALE}) {
    EXPECT_EQ(code(number), StatusCode::unavailable) << number;
  }
  for (const int number : {ENOMEM, ENOSPC}) {
    EXPECT_EQ(code(number), StatusCode::resource_exhausted);
  }
  EXPECT_EQ(code(EIO), StatusCode::internal);
  EXPECT_THAT(errno_status("open", EMFILE).message(), HasSubstr("ulimit -n"));
  EXPECT_THAT(errno_status("open", ELOOP).message(), HasSubstr("links"));
}

}  // namespace
}  // namespace tandem
