#include "shm/control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <functional>

namespace tandem {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

ControlInfo some_engine() {
  ControlInfo info;
  info.model = "llama-2-7b";
  info.engine_cpus = {0, 1, 17};
  info.groups.resize(2);
  info.groups[0] = {.node = 0,
                    .inbox = "/tandem-1-00000000-inbox",
                    .outbox = "/tandem-1-00000000-outbox",
                    .arena = "/tandem-1-00000000-adapters",
                    .num_worker_slots = 16,
                    .cpus = {4, 5, 6}};
  info.groups[1].node = 1;
  return info;
}

TEST(ControlRegion, TellsWhatItsEngineSaid) {
  auto region = ControlRegion::create(some_engine());
  ASSERT_TRUE(region.ok()) << region.status().message();
  EXPECT_THAT(list_engines(), Contains(::getpid()));
  const auto read = read_control(::getpid());
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->pid, ::getpid());
  EXPECT_EQ(read->model, "llama-2-7b");
  EXPECT_THAT(read->engine_cpus, ElementsAre(0, 1, 17));
  ASSERT_EQ(read->groups.size(), 2U);
  EXPECT_EQ(read->groups[0].inbox, "/tandem-1-00000000-inbox");
  EXPECT_EQ(read->groups[0].outbox, "/tandem-1-00000000-outbox");
  EXPECT_EQ(read->groups[0].arena, "/tandem-1-00000000-adapters");
  EXPECT_EQ(read->groups[0].num_worker_slots, 16);
  EXPECT_THAT(read->groups[0].cpus, ElementsAre(4, 5, 6));
  EXPECT_EQ(read->groups[1].node, 1);
  EXPECT_TRUE(read->groups[1].cpus.empty());
}

TEST(ControlRegion, GoesWithItsEngine) {
  { auto region = ControlRegion::create(some_engine()); }
  EXPECT_THAT(list_engines(), Not(Contains(::getpid())));
  EXPECT_EQ(read_control(::getpid()).status().code(), StatusCode::not_found);
}

TEST(ControlRegion, OfAKilledEngineIsNotFoundAndRemovedByTheNextStart) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto region = ControlRegion::create(some_engine());
    const char made = region.ok() ? 'y' : 'n';
    if (::write(ends[1], &made, 1) != 1) ::_exit(1);
    ::pause();
  }
  ::close(ends[1]);
  char made = 0;
  ASSERT_EQ(::read(ends[0], &made, 1), 1);
  ::close(ends[0]);
  EXPECT_EQ(made, 'y');
  EXPECT_THAT(list_engines(), Contains(child));
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_THAT(list_engines(), Not(Contains(child)));
  EXPECT_EQ(read_control(child).status().code(), StatusCode::not_found);
  EXPECT_THAT(remove_stale_shm_regions(),
              Contains(HasSubstr("tandem-" + std::to_string(child) + "-")));
}

TEST(ControlRegion, RefusesWhatDoesNotFit) {
  const auto refusal = [](const std::function<void(ControlInfo&)>& change) {
    ControlInfo info = some_engine();
    change(info);
    const auto region = ControlRegion::create(info);
    EXPECT_EQ(region.status().code(), StatusCode::invalid_argument);
    return region.status().message();
  };
  EXPECT_THAT(refusal([](auto& i) { i.model.assign(1024, 'x'); }), HasSubstr("1024 bytes"));
  EXPECT_THAT(refusal([](auto& i) { i.groups[0].arena.assign(128, 'x'); }), HasSubstr("arena"));
  EXPECT_THAT(refusal([](auto& i) { i.groups.resize(9); }), HasSubstr("9 groups"));
  EXPECT_THAT(refusal([](auto& i) { i.groups[1].cpus.resize(65); }), HasSubstr("65 cpus"));
  EXPECT_THAT(refusal([](auto& i) { i.groups[1].num_worker_slots = 65; }),
              HasSubstr("65 worker slots"));
  EXPECT_THAT(refusal([](auto& i) { i.engine_cpus.resize(4097); }), HasSubstr("4097 cpus"));
}

TEST(ControlRegion, IsRefusedWhenItIsDamagedAndSaysWhatIsWrong) {
  auto made = ControlRegion::create(some_engine());
  ASSERT_TRUE(made.ok());
  auto raw = ShmRegion::open(made->name(), ShmRegion::Access::read_write);
  ASSERT_TRUE(raw.ok());
  auto& layout = *reinterpret_cast<ControlLayout*>(raw->data());
  const std::vector<std::byte> good(raw->data(), raw->data() + raw->bytes());
  const auto damaged = [&](const std::function<void()>& change) {
    change();
    const Status status = read_control(::getpid()).status();
    EXPECT_FALSE(status.ok());
    std::memcpy(raw->data(), good.data(), good.size());
    EXPECT_TRUE(read_control(::getpid()).ok());
    return status;
  };
  EXPECT_EQ(damaged([&] { layout.version = 0; }).code(), StatusCode::unavailable);
  EXPECT_THAT(damaged([&] { layout.version = 2; }).message(), HasSubstr("version 2"));
  EXPECT_THAT(damaged([&] { layout.magic = 2; }).message(), HasSubstr("not a control region"));
  EXPECT_THAT(damaged([&] { layout.pid += 1; }).message(), HasSubstr("pid"));
  EXPECT_THAT(damaged([&] { layout.bytes = 2; }).message(), HasSubstr("2 bytes"));
  EXPECT_THAT(damaged([&] { layout.num_groups = 9; }).message(), HasSubstr("num_groups"));
  EXPECT_THAT(damaged([&] { layout.num_groups = -1; }).message(), HasSubstr("num_groups"));
  EXPECT_THAT(damaged([&] { layout.num_engine_cpus = 4097; }).message(), HasSubstr("4097"));
  EXPECT_THAT(damaged([&] { layout.groups[1].num_cpus = 65; }).message(), HasSubstr("num_cpus"));
  EXPECT_THAT(damaged([&] { layout.groups[0].num_worker_slots = -7; }).message(), HasSubstr("-7"));
  EXPECT_THAT(damaged([&] { std::memset(layout.groups[0].inbox, 'x', kMaxRegionName); }).message(),
              HasSubstr("inbox does not end"));
  EXPECT_THAT(damaged([&] { std::memset(layout.model, 'x', kMaxModelName); }).message(),
              HasSubstr("model does not end"));
}

}  // namespace
}  // namespace tandem
