#include "scheduler/cluster/membership/named_engines.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tandem {
namespace {

Result<HttpAddress> by_number(const HttpAddress& address) {
  if (address.host == "nowhere") return error(StatusCode::unavailable, "'nowhere' has no address");
  return HttpAddress{"10.0.0.1", address.port};
}

std::string refusal_of(const NamedEngines& named, RegistryEnginesOptions options = {}) {
  const auto source = engine_source(named, std::move(options));
  return source ? "" : source.status().message();
}

TEST(NamedEngines, AreSaidInWords) {
  EXPECT_TRUE(NamedEngines{}.none());
  EXPECT_EQ((NamedEngines{{"a:1", "b:1"}, ""}.in_words()), "2 engines");
  EXPECT_EQ((NamedEngines{{}, "sqlite:x"}.in_words()), "the registry's engines");
  EXPECT_EQ((NamedEngines{{"a:1"}, "sqlite:x"}.in_words()), "1 engines and the registry's");
}

TEST(NamedEngines, AreToldByNumberWhereThatIsWanted) {
  std::vector<std::string> told;
  const auto source = engine_source({{"http://a:1", "http://b:2"}, ""}, {.resolve = by_number});
  ASSERT_TRUE(source) << source.status().message();
  (*source)->watch([&](const std::vector<HttpAddress>& addresses) {
    for (const HttpAddress& address : addresses) told.push_back(address.text());
  });
  EXPECT_EQ(told, (std::vector<std::string>{"http://10.0.0.1:1", "http://10.0.0.1:2"}));
}

TEST(NamedEngines, AreRefusedWhereOneIsNoneOrGivenTwice) {
  EXPECT_EQ(refusal_of({{"http://a:1"}, ""}), "");
  EXPECT_EQ(refusal_of({{"http://a:1", "http://a:1"}, ""}), "engine: http://a:1 is given twice");
  EXPECT_EQ(refusal_of({{"http://a:1", "http://b:1"}, ""}, {.resolve = by_number}),
            "engine: http://b:1 is given twice");
  EXPECT_EQ(refusal_of({{"http://nowhere:1"}, ""}, {.resolve = by_number}),
            "engine: 'nowhere' has no address");
  EXPECT_NE(refusal_of({{"https://a:1"}, ""}), "");
  EXPECT_NE(refusal_of({{}, "x"}).find("neither sqlite:PATH"), std::string::npos);
}

}  // namespace
}  // namespace tandem
