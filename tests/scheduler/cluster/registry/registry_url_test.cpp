#include "scheduler/cluster/registry/registry_url.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

EtcdOptions etcd(const std::string& url) {
  auto parsed = parse_registry_url(url);
  EXPECT_TRUE(parsed.ok()) << parsed.status().message();
  return parsed ? std::get<EtcdOptions>(*parsed) : EtcdOptions{};
}

TEST(RegistryUrl, OfAFile) {
  const auto parsed = parse_registry_url("sqlite:/var/lib/tandem/a b.db");
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  EXPECT_EQ(std::get<SqliteUrl>(*parsed).path, "/var/lib/tandem/a b.db");
}

TEST(RegistryUrl, OfACluster) {
  const EtcdOptions options = etcd("etcd://10.0.0.1:2379,[fe80::1]:4000,etcd-2/prod/lora");
  EXPECT_THAT(options.endpoints,
              ElementsAre(HttpEndpoint{"10.0.0.1", "2379"}, HttpEndpoint{"fe80::1", "4000"},
                          HttpEndpoint{"etcd-2", "2379"}));
  EXPECT_EQ(options.prefix, "prod/lora/");
  EXPECT_EQ(etcd("etcd://a").prefix, "tandem/");
  EXPECT_EQ(etcd("etcd://a/").prefix, "tandem/");
}

TEST(RegistryUrl, SaysWhatIsWrong) {
  const auto wrong = [](const std::string& url) {
    return parse_registry_url(url).status().message();
  };
  EXPECT_THAT(wrong(""), HasSubstr("neither sqlite:PATH"));
  EXPECT_THAT(wrong("redis://a"), HasSubstr("'redis://a' is neither"));
  EXPECT_THAT(wrong("sqlite:"), HasSubstr("which file?"));
  EXPECT_THAT(wrong("etcd://"), HasSubstr("'' is no HOST:PORT"));
  EXPECT_THAT(wrong("etcd://a,,b"), HasSubstr("'' is no HOST:PORT"));
  EXPECT_THAT(wrong("etcd://a:0"), HasSubstr("'a:0' is no HOST:PORT"));
  EXPECT_THAT(wrong("etcd://a:65536"), HasSubstr("'a:65536'"));
  EXPECT_THAT(wrong("etcd://a:b"), HasSubstr("'a:b'"));
  EXPECT_THAT(wrong("etcd://[::1"), HasSubstr("'[::1'"));
  EXPECT_THAT(wrong("etcd://[::1]2379"), HasSubstr("'[::1]2379'"));
  EXPECT_THAT(wrong("etcd://a b"), HasSubstr("'a b'"));
  EXPECT_THAT(wrong("etcd://root:secret@a"), HasSubstr("users of etcd are not supported"));
  EXPECT_THAT(wrong("etcd://a/b?c"), HasSubstr("the prefix"));
  std::string many = "etcd://a";
  for (int i = 0; i < 16; ++i) many += ",a";
  EXPECT_THAT(wrong(many), HasSubstr("more than 16 endpoints"));
}

TEST(RegistryUrl, DoesNotRepeatSecrets) {
  const Status status = parse_registry_url("etcd://root:secret@a").status();
  EXPECT_THAT(status.message(), ::testing::Not(HasSubstr("secret")));
}

}  // namespace
}  // namespace tandem
