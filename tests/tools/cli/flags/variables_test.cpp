#include "tools/cli/flags/variables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Variables : public ::testing::Test {
 protected:
  Variables() {
    table_.add(port_, "port", "to listen on");
    table_.add(host_, "host", "to listen at");
  }
  ~Variables() override {
    for (const std::string& name : names_) ::unsetenv(name.c_str());
  }
  void set(const std::string& name, const std::string& value) {
    ::setenv(name.c_str(), value.c_str(), 1);
    names_.push_back(name);
  }
  Status load() {
    return load_variables(
        table_,
        [] {
          return std::vector<std::string>{"host", "port", "registry"};
        },
        [this](const std::string& message) { warnings_.push_back(message); });
  }

  SettingsTable table_;
  std::int64_t port_ = 8000;
  std::string host_ = "here";
  std::vector<std::string> names_, warnings_;
};

TEST_F(Variables, AreReadIntoTheTable) {
  set("TANDEM_PORT", "80");
  ASSERT_TRUE(load());
  EXPECT_EQ(port_, 80);
  EXPECT_EQ(host_, "here");
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(Variables, OfNearlyARightNameAreToldWithIt) {
  set("TANDEM_PROT", "80");
  ASSERT_TRUE(load());
  EXPECT_EQ(port_, 8000);
  EXPECT_THAT(warnings_,
              ElementsAre("the variable TANDEM_PROT is not read; did you mean TANDEM_PORT?"));
}

TEST_F(Variables, OfOtherCommandsAndOfOthersArePassedOver) {
  set("TANDEM_REGISTRY", "sqlite:x");
  set("TANDEM_CONFIG", "x");
  set("TANDEM_PORT_8000_TCP_ADDR", "10.0.0.1");
  set("TANDEMPROT", "1");
  ASSERT_TRUE(load());
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(Variables, OfKubernetesAreNoPorts) {
  set("TANDEM_PORT", "tcp://10.0.0.1:80");
  set("TANDEM_HOST", "tcp://10.0.0.1:80");
  ASSERT_TRUE(load());
  EXPECT_EQ(port_, 8000);
  EXPECT_EQ(host_, "tcp://10.0.0.1:80");
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("enableServiceLinks")));
}

TEST_F(Variables, ThatCannotBeReadAreNamed) {
  set("TANDEM_PORT", "eighty");
  EXPECT_THAT(load().message(), HasSubstr("(from TANDEM_PORT)"));
}

}  // namespace
}  // namespace tandem
