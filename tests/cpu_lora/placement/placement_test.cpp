#include "cpu_lora/placement/placement.h"

#include <gmock/gmock.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <optional>
#include <tuple>

#include "base/threads/thread_cpus.h"
#include "cpu_lora/placement/elsewhere.h"
#include "cpu_lora/placement/worker_slot_choice.h"

namespace tandem {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::Pair;
using testing::SizeIs;

MachineMap four_nodes() {
  MachineOptions options;
  options.synthetic = "pack:2 node:2 core:4 pu:1";
  return *read_machine(options);
}

// An engine on node 1 (cpus 4 to 7) with all workers in the right places.
ObservedEngine healthy() {
  ObservedEngine engine;
  engine.info.pid = 100;
  engine.info.engine_cpus = {4, 5};
  engine.threads = {{100, {0, 1, 2, 3, 4, 5, 6, 7}, 4}, {101, {5}, 5}};
  ControlInfo::Group group;
  group.node = 1;
  group.num_worker_slots = 4;
  group.cpus = {6, 7};
  engine.info.groups.push_back(group);
  for (int i = 0; i < 2; ++i) {
    ObservedWorker worker;
    worker.worker_slot = i;
    worker.pid = 200 + i;
    worker.claimed_cpu = worker.meant_cpu = worker.last_cpu = 6 + i;
    worker.allowed = {6 + i};
    worker.alive = true;
    worker.state = WorkerSlotState::working;
    worker.own_pages = {{1, 900}, {0, 100}};
    engine.workers.push_back(worker);
  }
  ObservedRegion arena;
  arena.what = "arena";
  arena.pages = {{0, 5}, {1, 995}};
  engine.regions.push_back(arena);
  return engine;
}

std::vector<Drift> drift_of(const ObservedEngine& engine) {
  return find_drift(engine, four_nodes());
}

TEST(Placement, FindsNothingWhereAllIsWhereItBelongs) {
  EXPECT_THAT(drift_of(healthy()), IsEmpty());
}

TEST(Placement, FindsAWorkerThatMayRunElsewhere) {
  ObservedEngine engine = healthy();
  engine.workers[0].allowed = {0, 1, 6};
  engine.workers[0].last_cpu = 1;
  const auto drift = drift_of(engine);
  ASSERT_THAT(drift, SizeIs(1));
  EXPECT_THAT(drift[0].what,
              HasSubstr("worker 200 (worker slot 0 of group 0) may run on 0-1,6 instead of "
                        "cpu 6 alone, and was last seen on 1"));
  EXPECT_EQ(drift[0].remedy, "taskset -cp 6 200");
}

// Advice must be possible to follow: taskset cannot bind to a cpu that the cpuset has lost.
TEST(Placement, DoesNotAdviseACpuThatTheEngineMayNotUseAnyMore) {
  ObservedEngine engine = healthy();
  engine.threads = {{100, {0, 1, 2, 3, 4, 5, 6}, 4}};
  engine.workers[1].allowed = {0, 1, 2, 3, 4, 5, 6};
  const auto drift = drift_of(engine);
  ASSERT_THAT(drift, SizeIs(1));
  EXPECT_THAT(drift[0].what, HasSubstr("cpu 7, on which the engine's processes may not run any"));
  EXPECT_THAT(drift[0].remedy, Not(HasSubstr("taskset")));
}

TEST(Placement, NamesCoresThatTwoEnginesHaveTaken) {
  const std::vector<ClaimedCores> claims = {
      {100, "a", {0, 1}, {6, 7}}, {101, "b", {2}, {7, 8}}, {102, "c", {3}, {}}};
  const std::vector<Drift> found = find_overlaps(100, claims);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].what, "cpus 7 are engine 101's (b), too");
  EXPECT_THAT(find_overlaps(101, claims), SizeIs(1));
  EXPECT_THAT(find_overlaps(102, claims), IsEmpty());
  EXPECT_THAT(find_overlaps(103, claims), IsEmpty()) << "which claims nothing";
}

TEST(Placement, FindsAWorkerThatIsBoundElsewhere) {
  ObservedEngine engine = healthy();
  engine.workers[1].claimed_cpu = 8;
  engine.workers[1].allowed = {8};
  const auto drift = drift_of(engine);
  ASSERT_THAT(drift, SizeIs(2));
  EXPECT_THAT(drift[0].what, HasSubstr("says cpu 8, the engine means cpu 7"));
  EXPECT_THAT(drift[1].what, HasSubstr("cpu 8 of node 2"));
}

TEST(Placement, FindsWorkersInTheWayOfTheEngineAndOfEachOther) {
  ObservedEngine engine = healthy();
  for (ObservedWorker& worker : engine.workers) {
    worker.claimed_cpu = worker.meant_cpu = 5;
    worker.allowed = {5};
  }
  const auto drift = drift_of(engine);
  ASSERT_THAT(drift, SizeIs(3));
  EXPECT_THAT(drift[0].what, HasSubstr("which the engine keeps for itself"));
  EXPECT_THAT(drift[2].what,
              HasSubstr("worker 201 (worker slot 1 of group 0) shares cpu 5 with worker 200"));
}

TEST(Placement, FindsMissingAndDeadWorkers) {
  ObservedEngine engine = healthy();
  engine.workers[0].pid = 0;
  engine.workers[1].alive = false;
  const auto drift = drift_of(engine);
  ASSERT_THAT(drift, SizeIs(2));
  EXPECT_THAT(drift[0].what,
              HasSubstr("worker slot 0 of group 0 has no worker; the engine means one on cpu 6"));
  EXPECT_EQ(drift[0].remedy, "tandem pin apply --engine 100");
  EXPECT_THAT(drift[1].what, HasSubstr("has ended"));
}

TEST(Placement, AsksForACpuWhereTheGroupHasANode) {
  ObservedEngine engine = healthy();
  engine.info.groups[0].cpus.clear();
  for (ObservedWorker& worker : engine.workers) worker.claimed_cpu = worker.meant_cpu = -1;
  EXPECT_THAT(drift_of(engine), SizeIs(2));
  engine.info.groups[0].node = -1;
  EXPECT_THAT(drift_of(engine), IsEmpty());
}

TEST(Placement, FindsThreadsOfTheEngineThatMayNotRunOnItsCpus) {
  ObservedEngine engine = healthy();
  engine.threads[1].allowed = {7};
  engine.threads.push_back({102, {7}, 7});
  auto drift = drift_of(engine);
  ASSERT_THAT(drift, SizeIs(1));
  EXPECT_EQ(drift[0].what,
            "2 of the engine's threads (101, 102) may run on cpus 7 alone, none of the 4-5 that it "
            "keeps");
  EXPECT_EQ(drift[0].remedy, "taskset -cp 4-5 101, and the others");
  engine.info.engine_cpus.clear();
  drift = drift_of(engine);
  ASSERT_THAT(drift, SizeIs(1));
  EXPECT_THAT(drift[0].what, HasSubstr("may run on cpus 7 alone, which are workers'"));
  engine.threads.push_back({103, {7}, 7, "loader-3"});
  engine.threads.push_back({104, {6}, 6, "adapter disk"});
  EXPECT_THAT(drift_of(engine), SizeIs(1)) << "readers share cores with workers";
  for (int i : {1, 2}) engine.threads[static_cast<std::size_t>(i)].allowed = {0, 7};
  EXPECT_THAT(drift_of(engine), IsEmpty()) << "cpu 0 is nobody's";
}

TEST(Placement, FindsPagesOfTheWrongNode) {
  ObservedEngine engine = healthy();
  engine.workers[0].own_pages = {{0, 60}, {1, 40}};
  engine.regions[0].pages = {{1, 80}, {2, 20}};
  auto drift = drift_of(engine);
  ASSERT_THAT(drift, SizeIs(2));
  EXPECT_THAT(drift[0].what, HasSubstr("40 % of its own memory on node 1"));
  EXPECT_THAT(drift[1].what, HasSubstr("the arena of group 0 has 80 % of its pages on node 1"));
  engine = healthy();
  engine.regions[0].pages = {{3, 100}};
  drift = drift_of(engine);
  ASSERT_THAT(drift, SizeIs(1));
  EXPECT_THAT(drift[0].remedy, HasSubstr("migratepages 100 3 1"));
  engine.info.groups[0].node = -1;
  EXPECT_THAT(drift_of(engine), IsEmpty()) << "memory of no node may be on any";
}

std::vector<std::tuple<int, int, int>> choose(const ObservedEngine& engine,
                                              PinOptions wishes = {}) {
  std::vector<std::tuple<int, int, int>> out;
  for (const WorkerSlotChoice& one :
       choose_worker_slots(engine, four_nodes(), wishes).worker_slots) {
    out.emplace_back(one.group, one.worker_slot, one.cpu);
  }
  return out;
}

TEST(WorkerSlotChoice, FillsTheWorkerSlotsThatTheEngineMeans) {
  ObservedEngine engine = healthy();
  EXPECT_THAT(choose(engine), IsEmpty());
  engine.workers[1].pid = 0;
  EXPECT_THAT(choose(engine), ElementsAre(std::tuple(0, 1, 7)));
  engine.workers[0].claimed_cpu = 7;
  EXPECT_THAT(choose(engine), ElementsAre(std::tuple(0, 1, 7)))
      << "the kernel knows that it is not";
  engine.workers[0].allowed = {7};
  EXPECT_THAT(choose(engine), IsEmpty()) << "another worker is on that cpu";
}

TEST(WorkerSlotChoice, AddsWorkersOnFreeCoresOfTheGroupsNode) {
  ObservedEngine engine = healthy();
  PinOptions wishes;
  wishes.workers = 1;
  EXPECT_THAT(choose(engine, wishes), IsEmpty()) << "node 1 has no core left";
  EXPECT_THAT(choose_worker_slots(engine, four_nodes(), wishes).notes,
              ElementsAre(HasSubstr("1 workers are asked for and 0 can be started")));
  engine.info.engine_cpus = {4};
  engine.workers.pop_back();
  engine.info.groups[0].cpus = {6};
  EXPECT_THAT(choose(engine, wishes), ElementsAre(std::tuple(0, 1, 5)));
  wishes.workers = 2;
  EXPECT_THAT(choose(engine, wishes), ElementsAre(std::tuple(0, 1, 5), std::tuple(0, 2, 7)));
}

TEST(WorkerSlotChoice, PlansForAnEngineThatMeansNone) {
  ObservedEngine engine = healthy();
  engine.workers.clear();
  engine.info.groups[0].cpus.clear();
  EXPECT_THAT(choose(engine), ElementsAre(std::tuple(0, 0, 6), std::tuple(0, 1, 7)));
}

TEST(ProcessPlace, AddsUpAnonymousPagesByNode) {
  EXPECT_THAT(parse_numa_maps("55d0 default file=/usr/bin/x mapped=3 N0=3 kernelpagesize_kB=4\n"
                              "55d1 default heap anon=20 dirty=20 N0=5 N1=15 kernelpagesize_kB=4\n"
                              "7ffc default stack anon=3 dirty=3 N1=3 kernelpagesize_kB=4\n"),
              ElementsAre(Pair(0, 5), Pair(1, 18)));
  EXPECT_THAT(parse_numa_maps("rubbish N= N1 anon= N\n"), IsEmpty());
}

TEST(ProcessPlace, TellsWhereAProcessMayRun) {
  const auto place = read_thread_place(getpid(), getpid());
  ASSERT_TRUE(place.ok()) << place.status().message();
  EXPECT_EQ(place->allowed, cpus_of_thread(getpid()));
  EXPECT_GE(place->last_cpu, 0);
  const auto all = read_thread_places(getpid());
  ASSERT_TRUE(all.ok());
  EXPECT_GE(all->size(), 1U);
}

TEST(ProcessPlace, KnowsThatAZombieRunsNowhere) {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  siginfo_t info{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(read_thread_place(child, child).status().code(), StatusCode::not_found);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_EQ(read_thread_places(child).status().code(), StatusCode::not_found);
}

TEST(ProcessPlace, FindsThePagesOfAMapping) {
  Result<ShmRegion> region = ShmRegion::create("test", std::size_t{1} << 20);
  ASSERT_TRUE(region.ok()) << region.status().message();
  const auto count = [](const PagesByNode& pages) {
    std::uint64_t sum = 0;
    for (const auto& [node, pages_there] : pages) sum += pages_there;
    return sum;
  };
  const auto all = find_pages(region->data(), region->bytes(), 100000);
  if (!all && all.status().code() == StatusCode::unavailable) GTEST_SKIP() << "no NUMA here";
  ASSERT_TRUE(all.ok()) << all.status().message();
  EXPECT_EQ(count(*all), region->bytes() / static_cast<std::size_t>(getpagesize()));
  EXPECT_EQ(count(*find_pages(region->data(), region->bytes(), 10)), 10U);
}

// An engine that consists of this process, with idle child processes as its workers.
class FakeEngine : public testing::Test {
 protected:
  void SetUp() override {
    MailboxShape shape;
    shape.num_worker_slots = 4;
    shape.max_rows = shape.max_in = shape.max_out = shape.max_rank = 16;
    Result<Mailbox> made = Mailbox::create(shape, -1);
    ASSERT_TRUE(made.ok()) << made.status().message();
    mailbox_.emplace(*std::move(made));
    Result<ShmRegion> arena = ShmRegion::create("arena", 65536);
    ASSERT_TRUE(arena.ok()) << arena.status().message();
    arena_ = *std::move(arena);
    info_.model = "a model";
    ControlInfo::Group group;
    group.inbox = mailbox_->inbox_region().name();
    group.outbox = mailbox_->outbox_region().name();
    group.arena = arena_.name();
    group.num_worker_slots = 4;
    cpu_ = read_thread_place(getpid(), getpid())->allowed.back();
    group.cpus = {cpu_};
    info_.groups.push_back(group);
    Result<ControlRegion> control = ControlRegion::create(info_);
    ASSERT_TRUE(control.ok()) << control.status().message();
    control_.emplace(*std::move(control));
  }
  void TearDown() override {
    if (child_ > 0) {
      kill(child_, SIGKILL);
      waitpid(child_, nullptr, 0);
    }
  }
  void start_worker(const std::vector<int>& cpus) {
    child_ = fork();
    if (child_ == 0) {
      for (;;) pause();
    }
    bind(cpus);
    mailbox_->worker_slot(0).cpu.store(static_cast<std::uint32_t>(cpu_));
    mailbox_->worker_slot(0).pid.store(static_cast<std::uint32_t>(child_));
    mailbox_->worker_slot(0).state.store(WorkerSlotState::working);
  }
  void bind(const std::vector<int>& cpus) {
    cpu_set_t mask;
    CPU_ZERO(&mask);
    for (const int cpu : cpus) CPU_SET(cpu, &mask);
    ASSERT_EQ(sched_setaffinity(child_, sizeof mask, &mask), 0);
  }
  std::vector<Drift> drift() {
    Result<ObservedEngine> seen = observe_engine(getpid());
    EXPECT_TRUE(seen.ok()) << seen.status().message();
    return seen ? find_drift(*seen, *read_machine()) : std::vector<Drift>{};
  }

  ControlInfo info_;
  std::optional<Mailbox> mailbox_;
  ShmRegion arena_;
  std::optional<ControlRegion> control_;
  int cpu_ = 0;
  pid_t child_ = -1;
};

TEST_F(FakeEngine, IsObservedByTheKernelsAccount) {
  start_worker({cpu_});
  const auto seen = observe_engine(getpid());
  ASSERT_TRUE(seen.ok()) << seen.status().message();
  EXPECT_EQ(seen->info.model, "a model");
  ASSERT_THAT(seen->workers, SizeIs(1)) << "three worker slots are nobody's";
  EXPECT_EQ(seen->workers[0].pid, child_);
  EXPECT_THAT(seen->workers[0].allowed, ElementsAre(cpu_));
  EXPECT_EQ(seen->workers[0].meant_cpu, cpu_);
  EXPECT_THAT(seen->regions, SizeIs(3));
  EXPECT_THAT(find_drift(*seen, *read_machine()), IsEmpty());
}

TEST_F(FakeEngine, ShowsADriftedWorkerUntilTheRemedyIsApplied) {
  const std::vector<int> all = read_thread_place(getpid(), getpid())->allowed;
  if (all.size() < 2) GTEST_SKIP() << "one cpu leaves nowhere to drift to";
  start_worker(all);
  const auto found = drift();
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].remedy, fmt::format("taskset -cp {} {}", cpu_, child_));
  bind({cpu_});
  EXPECT_THAT(drift(), IsEmpty());
}

TEST_F(FakeEngine, ShowsWorkersThatAreMissingOrKilled) {
  ASSERT_THAT(drift(), SizeIs(1)) << "nobody sits where the engine means one";
  start_worker({cpu_});
  EXPECT_THAT(drift(), IsEmpty());
  kill(child_, SIGKILL);
  waitpid(child_, nullptr, 0);
  child_ = -1;
  const auto found = drift();
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].what, HasSubstr("its worker slot is still taken"));
}

// The engine is the first process of its own pid namespace and shares our /dev/shm.
TEST(Placement, DoesNotTakeAStrangerForAnEngineWithPidsOfItsOwn) {
  int ready[2];
  int stop[2];
  ASSERT_EQ(pipe(ready), 0);
  ASSERT_EQ(pipe(stop), 0);
  const pid_t outer = fork();
  if (outer == 0) {
    if (unshare(CLONE_NEWPID) != 0) _exit(77);
    close(stop[1]);
    const pid_t inner = fork();
    if (inner == 0) {
      const Result<ControlRegion> control = ControlRegion::create({});
      char word = control.ok() ? 'y' : 'n';
      // Waits until the test closes its end of the pipe.
      if (write(ready[1], &word, 1) == 1 && read(stop[0], &word, 1) == 0) unlink_own_shm_regions();
      _exit(0);
    }
    close(ready[1]);
    waitpid(inner, nullptr, 0);
    _exit(0);
  }
  close(ready[1]);
  close(stop[0]);
  char done = 0;
  if (read(ready[0], &done, 1) != 1) {
    close(stop[1]);
    waitpid(outer, nullptr, 0);
    close(ready[0]);
    GTEST_SKIP() << "no pid namespace may be made here";
  }
  EXPECT_EQ(done, 'y');
  EXPECT_EQ(check_maker(1).code(), StatusCode::unavailable);
  EXPECT_EQ(observe_engine(1).status().code(), StatusCode::unavailable);
  close(stop[1]);
  waitpid(outer, nullptr, 0);
  close(ready[0]);
  EXPECT_EQ(check_maker(1).code(), StatusCode::not_found);
}

TEST(Placement, KnowsNoEngineOfAnotherPid) {
  // Uses its own pid, which has no control region; another test may have an engine as pid 1
  // meanwhile.
  EXPECT_EQ(observe_engine(getpid()).status().code(), StatusCode::not_found);
}

}  // namespace
}  // namespace tandem
