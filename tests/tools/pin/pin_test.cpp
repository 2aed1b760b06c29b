// Runs `tandem pin` as a command, on machines from files and on imagined ones.
#include <gmock/gmock.h>
#include <sched.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "base/threads/thread_cpus.h"
#include "shm/control.h"
#include "shm/jobs.h"
#include "shm/mailbox.h"
#include "shm/region.h"
#include "tests/support/temp_dir.h"
#include "tests/tools/process.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

using tandem::testing::TempDir;

constexpr const char* kTwoSockets = "data/machines/two_sockets.xml";

Finished pin(std::vector<std::string> args) {
  args.insert(args.begin(), "pin");
  return run_tandem(args);
}

nlohmann::json json_of(const Finished& run) {
  EXPECT_EQ(run.status, 0) << run.error;
  nlohmann::json json = nlohmann::json::parse(run.output, nullptr, false);
  EXPECT_TRUE(json.is_object()) << run.output;
  return json;
}

std::string read_all(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(PinShow, DrawsATreeOfAFile) {
  const Finished run = pin({"show", "--xml", kTwoSockets});
  EXPECT_EQ(run.status, 0) << run.error;
  EXPECT_THAT(run.output, StartsWith("data/machines/two_sockets.xml: 2 packages, 4 NUMA nodes, "
                                     "8 cores, 16 hardware threads, 2 GPUs\n"));
  EXPECT_THAT(run.output,
              HasSubstr("└─ node 3           64 GiB\n"
                        "   ├─ GPU 1         GH100 [H200 SXM 141GB], 0000:9d:00.0\n"
                        "   └─ L3 cache      32 MiB\n"
                        "      ├─ core 6     cpu 6, sibling 14; L2 2 MiB\n"
                        "      └─ core 7     cpu 7, sibling 15; L2 2 MiB; outside the cpuset\n"));
  EXPECT_THAT(run.output, HasSubstr("usable by this process: cpus 0-6,8-14 (7 cores)"));
}

TEST(PinShow, ShowsThisMachine) {
  const Finished run = pin({"show"});
  EXPECT_EQ(run.status, 0) << run.error;
  EXPECT_THAT(run.output, StartsWith("this machine: "));
  EXPECT_THAT(run.output, HasSubstr("usable by this process: cpu"));
}

TEST(PinShow, WritesJsonThatHasAllOfIt) {
  const nlohmann::json json = json_of(pin({"show", "--xml", kTwoSockets, "--json"}));
  EXPECT_EQ(json["nodes"].size(), 4U);
  EXPECT_EQ(json["cores"][5]["threads"][1]["cpu"], 13);
  EXPECT_EQ(json["cores"][7]["threads"][0]["use"], "outside the cpuset");
  EXPECT_EQ(json["gpus"][1]["nodes"], nlohmann::json::array({3}));
  EXPECT_EQ(json["caches"].size(), 12U);
}

TEST(PinShow, SaysWhichCoresAreTheFastOnes) {
  const std::string text = pin({"show", "--xml", "data/machines/hybrid.xml"}).output;
  EXPECT_THAT(text, HasSubstr("kinds of cores, fastest first: IntelCore (5.8 GHz at most) cpus "
                              "0-15; IntelAtom (4.3 GHz at most) cpus 16-31\n"));
  EXPECT_THAT(text, HasSubstr("cpus 16-19; IntelAtom\n"));
  EXPECT_THAT(pin({"show", "--xml", "data/machines/big_little.xml"}).output,
              HasSubstr("fastest first: kind 1 of 2 cpus 4-7; kind 2 of 2 cpus 0-3\n"));
  const nlohmann::json json = json_of(pin({"show", "--xml", "data/machines/hybrid.xml", "--json"}));
  EXPECT_EQ(json["cores"][8]["speed_rank"], 1);
  EXPECT_EQ(json["core_kinds"][0]["name"], "IntelCore");
  EXPECT_EQ(json["core_kinds"][1]["cpus"].size(), 16U);
}

TEST(PinShow, DrawsAPictureWithALegend) {
  const TempDir folder;
  const std::string file = (folder.path() / "machine.svg").string();
  const Finished run = pin({"show", "--synthetic", "node:2 core:4 pu:2", "--gpu-node", "1",
                            "--exclude", "5", "--svg", file});
  EXPECT_EQ(run.status, 0) << run.error;
  const std::string svg = read_all(file);
  EXPECT_THAT(svg, StartsWith("<svg "));
  EXPECT_THAT(svg, HasSubstr("prefers-color-scheme: dark"));
  for (const char* text : {"GPU 0", "node 1", "core 7", ">cpu 15<", ">engine<", ">CPU LoRA worker<",
                           ">excluded<", "for GPU 0: engine on cpus 8,10; 2 CPU workers on cpus"}) {
    EXPECT_THAT(svg, HasSubstr(text));
  }
  EXPECT_THAT(svg, Not(HasSubstr("isolated (isolcpus)"))) << "the legend has what the picture has";
}

TEST(PinShow, WritesAPageWithThePictureAndThePlan) {
  const TempDir folder;
  const std::string file = (folder.path() / "machine.html").string();
  const Finished run =
      pin({"show", "--synthetic", "node:2 core:4 pu:2", "--gpu-node", "1", "--html", file});
  EXPECT_EQ(run.status, 0) << run.error;
  const std::string page = read_all(file);
  for (const char* text : {"<!DOCTYPE html>", "<svg ", ">core 7<", "CPU workers have cpus",
                           "tandem pin show --synthetic node:2 core:4 pu:2"}) {
    EXPECT_THAT(page, HasSubstr(text));
  }
  EXPECT_THAT(page, Not(HasSubstr("Who has which core"))) << "on an imagined machine";
  EXPECT_EQ(pin({"show", "--html", file}).status, 0);
  EXPECT_THAT(read_all(file), HasSubstr("Who has which core now"));
  const Finished nowhere = pin({"plan", "--synthetic", "node:1 core:4 pu:1", "--device", "host",
                                "--html", (folder.path() / "no" / "m.html").string()});
  EXPECT_NE(nowhere.status, 0);
  EXPECT_THAT(nowhere.error, HasSubstr("html"));
}

TEST(PinPlanCommand, PrintsWhoGetsWhatAndTheLinesOfAConfig) {
  const Finished run = pin({"plan", "--synthetic", "node:2 core:8 pu:1", "--gpu-node", "1"});
  EXPECT_EQ(run.status, 0) << run.error;
  EXPECT_THAT(run.output, HasSubstr("  engine   2 cores   cpus 8-9\n"
                                    "  workers  6 cores   cpus 10-15, node 1\n"));
  EXPECT_THAT(run.output, HasSubstr("  cpus = \"8-9\"\n"
                                    "  worker_cpus = \"10-15\"\n"
                                    "  cpu_workers = 6\n"));
}

TEST(PinPlanCommand, SaysWhyThereAreFewerThanWished) {
  const Finished run = pin({"plan", "--xml", kTwoSockets, "--workers", "4"});
  EXPECT_EQ(run.status, 0) << run.error;
  EXPECT_THAT(run.output, HasSubstr("note: 4 workers are asked for and 1 get a core"));
  EXPECT_THAT(run.output, HasSubstr("--all-nodes"));
}

TEST(PinPlanCommand, WritesJson) {
  const nlohmann::json json = json_of(pin(
      {"plan", "--xml", kTwoSockets, "--gpus", "1", "--all-nodes", "--workers", "2", "--json"}));
  EXPECT_EQ(json["gpu"], 1);
  EXPECT_EQ(json["engine_cpus"], nlohmann::json::array({4, 6}));
  EXPECT_EQ(json["workers"][0]["node"], 2);
  EXPECT_EQ(json["settings"]["cpu_workers"], 2);
}

TEST(PinPlanCommand, IsNearAllGpusThatShareAModel) {
  const std::vector<std::string> both = {"plan", "--xml", kTwoSockets, "--tensor-parallel", "2"};
  std::vector<std::string> with_json = both;
  with_json.insert(with_json.end(), {"--workers", "2", "--json"});
  const nlohmann::json json = json_of(pin(with_json));
  EXPECT_EQ(json["gpus"], nlohmann::json::array({0, 1}));
  ASSERT_EQ(json["workers"].size(), 2U);
  EXPECT_NE(json["workers"][0]["node"], json["workers"][1]["node"]);
  EXPECT_EQ(json["workers"][1]["node"], 3);
  EXPECT_THAT(pin(both).output, StartsWith("For GPU 0 ("));
  EXPECT_THAT(pin(both).output, HasSubstr(" and GPU 1 ("));
}

TEST(PinPlanCommand, MakesAPlanForEachGpuThatHasAModelOfItsOwn) {
  const Finished run = pin({"plan", "--xml", kTwoSockets, "--gpus", "0,1"});
  EXPECT_EQ(run.status, 0) << run.error;
  EXPECT_THAT(run.output, StartsWith("For GPU 0 ("));
  EXPECT_THAT(run.output, HasSubstr("\nFor GPU 1 ("));
  EXPECT_EQ(pin({"plan", "--xml", kTwoSockets, "--gpu", "0,1"}).output, run.output)
      << "its old flag";
  EXPECT_THAT(pin({"plan", "--xml", kTwoSockets, "--gpus", "0,1", "--tensor-parallel", "3"}).error,
              HasSubstr("gpus: 0,1 names 2 GPUs, but tensor_parallel is 3"));
}

TEST(PinPlanCommand, ReadsDeviceAndGpuOfAServersConfig) {
  const TempDir folder;
  const std::string file = (folder.path() / "server.toml").string();
  std::ofstream(file) << "model = \"x\"\ngpus = \"1\"\nport = 9000\n";
  const nlohmann::json json =
      json_of(pin({"plan", "--xml", kTwoSockets, "--config", file, "--json"}));
  EXPECT_EQ(json["gpu"], 1);
}

TEST(PinPlanCommand, RefusesWhatIsNotThere) {
  const Finished gpu = pin({"plan", "--xml", kTwoSockets, "--gpus", "2"});
  EXPECT_EQ(gpu.status, 2);
  EXPECT_THAT(gpu.error, HasSubstr("there is no GPU 2; there are 2"));
  const Finished all = pin({"plan", "--synthetic", "core:2 pu:1", "--exclude", "0-1"});
  EXPECT_EQ(all.status, 1);
  EXPECT_THAT(all.error, HasSubstr("all are excluded"));
  const Finished list = pin({"plan", "--exclude", "many"});
  EXPECT_THAT(list.error, HasSubstr("'many' is not a list as in 0-3,8"));
  const Finished word = pin({"shaw"});
  EXPECT_EQ(word.status, 2);
  EXPECT_THAT(word.error, HasSubstr("did you mean 'show'?"));
}

TEST(PinApplyCommand, WritesThePlanIntoAConfigAndKeepsTheRest) {
  const TempDir folder;
  const std::filesystem::path file = folder.path() / "server.toml";
  std::ofstream(file) << "# mine\nmodel = \"m\"\ncpu_workers = 3  # three\n\n# the end\n";
  std::filesystem::permissions(
      file, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  const std::vector<std::string> args = {
      "apply", "--config", file.string(), "--synthetic", "core:8 pu:1", "--gpu-node", "0"};
  const Finished run = pin(args);
  EXPECT_EQ(run.status, 0) << run.error;
  EXPECT_THAT(run.output, HasSubstr("now has:\n  cpus = \"0-1\"\n"));
  const std::string after = read_all(file);
  EXPECT_EQ(
      after,
      "# mine\nmodel = \"m\"\ncpu_workers = 6  # three\ncpus = \"0-1\"\nworker_cpus = \"2-7\"\n"
      "\n# the end\n");
  EXPECT_EQ(std::filesystem::status(file).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  EXPECT_THAT(pin(args).output, HasSubstr("has it already"));
  EXPECT_EQ(read_all(file), after);
}

TEST(PinApplyCommand, LeavesAFileAloneThatIsNoServersConfigOrContradicts) {
  const TempDir folder;
  const std::filesystem::path file = folder.path() / "server.toml";
  std::ofstream(file) << "modle = \"m\"\n";
  Finished run = pin({"apply", "--config", file.string(), "--synthetic", "core:8 pu:1"});
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.error, HasSubstr("did you mean 'model'?"));
  EXPECT_EQ(read_all(file), "modle = \"m\"\n");
  std::ofstream(file) << "threads = 9\n";
  run = pin({"apply", "--config", file.string(), "--synthetic", "core:8 pu:1"});
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.error, HasSubstr("threads = 9 is more than the 8 cores of the plan"));
  EXPECT_EQ(read_all(file), "threads = 9\n");
}

TEST(PinApplyCommand, AsksWhatToApplyTo) {
  EXPECT_EQ(pin({"apply"}).status, 2);
  const Finished run = pin({"apply", "--engine", "1"});
  EXPECT_EQ(run.status, 1);
  EXPECT_THAT(run.error, HasSubstr("there is no engine with pid 1"));
}

TEST(PinCheckCommand, FailsWithoutAnEngine) {
  const Finished run = pin({"check", "--engine", "1"});
  EXPECT_EQ(run.status, 1);
  EXPECT_THAT(run.error, StartsWith("tandem pin check: there is no engine with pid 1"));
}

TEST(PinCheckCommand, KnowsAnEngineWithoutWorkers) {
  const ShmRegion arena = ShmRegion::create("adapters", 65536).value();
  const std::string engine = std::to_string(getpid());
  const Finished run = pin({"check", "--engine", engine});
  EXPECT_EQ(run.status, 0) << run.error;
  EXPECT_THAT(run.output, StartsWith("engine " + engine + "\n  no CPU workers\n  ok"));
  EXPECT_THAT(pin({"check"}).output, HasSubstr("engine " + engine + "\n"));
  EXPECT_EQ(json_of(pin({"check", "--engine", engine, "--json"}))["engines"][0]["pid"], getpid());
}

// An engine that consists of this process: a mailbox, an arena and a control region, but no thread.
class PinOnFakeEngine : public ::testing::Test {
 protected:
  void SetUp() override {
    MailboxShape shape;
    shape.num_worker_slots = 2;
    shape.max_rows = 4;
    shape.max_in = shape.max_out = 64;
    shape.max_rank = 16;
    Result<Mailbox> made = Mailbox::create(shape, -1);
    ASSERT_TRUE(made.ok()) << made.status().message();
    mailbox_.emplace(*std::move(made));
    Result<ShmRegion> arena = ShmRegion::create("arena", 65536);
    ASSERT_TRUE(arena.ok()) << arena.status().message();
    arena_ = *std::move(arena);
    ControlInfo info;
    info.model = "fake";
    ControlInfo::Group group;
    group.inbox = mailbox_->inbox_region().name();
    group.outbox = mailbox_->outbox_region().name();
    group.arena = arena_.name();
    group.num_worker_slots = 2;
    cpus_ = cpus_of_thread(getpid());
    group.cpus = {cpus_.back()};
    info.groups.push_back(group);
    Result<ControlRegion> control = ControlRegion::create(info);
    ASSERT_TRUE(control.ok()) << control.status().message();
    control_.emplace(*std::move(control));
  }
  void TearDown() override {
    if (!mailbox_) return;
    stop_workers(*mailbox_);
    if (worker() > 0) kill(worker(), SIGKILL);
  }
  int worker() const { return static_cast<int>(mailbox_->worker_slot(0).pid.load()); }
  std::string engine() const { return std::to_string(getpid()); }

  std::optional<Mailbox> mailbox_;
  ShmRegion arena_;
  std::optional<ControlRegion> control_;
  std::vector<int> cpus_;
};

TEST_F(PinOnFakeEngine, StartsWhatIsMissingAndFindsWhatDrifts) {
  Finished check = pin({"check", "--engine", engine()});
  EXPECT_EQ(check.status, 1);
  EXPECT_THAT(check.output, HasSubstr("remedy: tandem pin apply --engine " + engine()));

  const Finished apply = pin({"apply", "--engine", engine()});
  ASSERT_EQ(apply.status, 0) << apply.output << apply.error;
  EXPECT_THAT(apply.output, HasSubstr("1 of 1 workers came up"));
  ASSERT_GT(worker(), 0) << "it outlives who started it";
  EXPECT_EQ(kill(worker(), 0), 0);
  EXPECT_THAT(pin({"apply", "--engine", engine()}).output, HasSubstr("every worker that it means"));

  check = pin({"check", "--engine", engine()});
  EXPECT_EQ(check.status, 0) << check.output;
  EXPECT_THAT(check.output, HasSubstr("ok: all is where it belongs"));
  const nlohmann::json json = json_of(pin({"check", "--engine", engine(), "--json"}));
  EXPECT_EQ(json["ok"], true);
  EXPECT_EQ(json["engines"][0]["workers"][0]["allowed_cpus"],
            nlohmann::json::array({cpus_.back()}));

  if (cpus_.size() < 2) return;  // there is no other core
  cpu_set_t all;
  CPU_ZERO(&all);
  for (const int cpu : cpus_) CPU_SET(cpu, &all);
  ASSERT_EQ(sched_setaffinity(worker(), sizeof all, &all), 0);
  check = pin({"check", "--engine", engine()});
  EXPECT_EQ(check.status, 1);
  EXPECT_THAT(check.output, HasSubstr("drift: worker " + std::to_string(worker())));
  EXPECT_THAT(check.output,
              HasSubstr(fmt::format("remedy: taskset -cp {} {}", cpus_.back(), worker())));
}

TEST(PinHelp, ExplainsEachCommand) {
  EXPECT_THAT(pin({"--help"}).output, HasSubstr("show "));
  for (const char* name : {"show", "plan", "apply", "check"}) {
    const Finished run = pin({name, "--help"});
    EXPECT_EQ(run.status, 0);
    EXPECT_THAT(run.output, StartsWith(std::string("Usage: tandem pin ") + name));
    EXPECT_THAT(run.output, Not(HasSubstr("--max-queue"))) << "a server's keys are for files only";
  }
}

}  // namespace
}  // namespace tandem
