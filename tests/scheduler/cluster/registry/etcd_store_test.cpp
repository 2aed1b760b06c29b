#include "scheduler/cluster/registry/etcd_store.h"

#include <gmock/gmock.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "scheduler/cluster/registry/registry.h"
#include "tests/scheduler/cluster/registry/etcd_process.h"
#include "tests/scheduler/cluster/registry/registry_suite.h"

namespace tandem {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using tandem::testing::EtcdProcess;
using tandem::testing::free_endpoint;
using tandem::testing::make_adapter;
using tandem::testing::make_engine;
using tandem::testing::registry_cases;
using tandem::testing::RegistryBench;
using tandem::testing::RegistryCase;
using tandem::testing::SilentServer;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::unique_ptr<Registry> connect(std::vector<HttpEndpoint> endpoints, const std::string& prefix) {
  EtcdOptions options;
  options.endpoints = std::move(endpoints);
  options.prefix = prefix;
  return std::make_unique<Registry>(std::make_unique<EtcdStore>(std::move(options)));
}

// A single test, because each would start a process.
TEST(EtcdRegistry, KeepsItsPromises) {
  const auto etcd = EtcdProcess::start();
  if (etcd == nullptr) GTEST_SKIP() << "no etcd here: the package etcd-server has it";
  for (const RegistryCase& each : registry_cases()) {
    SCOPED_TRACE(each.name);
    RegistryBench bench;
    bench.connect = [&] { return connect({etcd->endpoint()}, std::string(each.name) + "/"); };
    bench.pass_time = [](milliseconds) {};
    each.run(bench);
  }
}

TEST(EtcdRegistry, GoesOnWithTheEndpointsThatAnswer) {
  const auto etcd = EtcdProcess::start();
  if (etcd == nullptr) GTEST_SKIP() << "no etcd here: the package etcd-server has it";
  const SilentServer silent;
  EtcdOptions options;
  options.endpoints = {free_endpoint(), silent.endpoint(), etcd->endpoint()};
  options.timeout = seconds(3);  // the silent endpoint uses all of it once
  Registry registry(std::make_unique<EtcdStore>(options));
  ASSERT_TRUE(registry.add_adapter(make_adapter("sql", 1)).ok());
  const auto before = registry.snapshot();
  ASSERT_TRUE(before.ok());
  ASSERT_EQ(before->adapters.size(), 1U);
  ASSERT_TRUE(registry.add_adapter(make_adapter("sql", 2)).ok());
  const auto news = registry.watch(before->revision, seconds(20));
  ASSERT_TRUE(news.ok()) << news.status().message();
  EXPECT_EQ(news->adapters.size(), 1U);
}

TEST(EtcdRegistry, ReadsMoreThanOnePageAsOfOneRevision) {
  const auto etcd = EtcdProcess::start();
  if (etcd == nullptr) GTEST_SKIP() << "no etcd here: the package etcd-server has it";
  EtcdStore store({{etcd->endpoint()}, "pages/", seconds(10)});
  int number = 0;
  for (int i = 0; i < 45; ++i) {
    StoreWrite write;
    for (int k = 0; k < 100; ++k) write.puts.push_back({fmt::format("k{:06}", number++), "v", 0});
    const auto written = store.write(write);
    ASSERT_TRUE(written.ok() && *written) << written.status().message();
  }
  const auto all = store.read("k");
  ASSERT_TRUE(all.ok()) << all.status().message();
  ASSERT_EQ(all->values.size(), 4500U);
  for (int i = 0; i < number; ++i) {
    ASSERT_EQ(all->values[static_cast<std::size_t>(i)].key, fmt::format("k{:06}", i));
  }
}

TEST(EtcdStore, SaysThatNobodyAnswers) {
  const HttpEndpoint nobody = free_endpoint();
  const Status status = connect({nobody}, "tandem/")->snapshot().status();
  EXPECT_EQ(status.code(), StatusCode::unavailable);
  EXPECT_THAT(status.message(), AllOf(HasSubstr(nobody.text()), HasSubstr("is it running")));
}

TEST(EtcdStore, WaitsForSilentEndpointsForAWhileOnly) {
  const SilentServer silent;
  EtcdOptions options;
  options.endpoints = {silent.endpoint()};
  options.timeout = milliseconds(50);
  const Status status = EtcdStore(options).watch(1, std::chrono::hours(1)).status();
  EXPECT_EQ(status.code(), StatusCode::unavailable);
  EXPECT_THAT(status.message(), HasSubstr("no answer in time"));
}

}  // namespace
}  // namespace tandem
