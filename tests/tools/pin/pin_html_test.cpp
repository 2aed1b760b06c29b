#include "tools/pin/pin_html.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem {
namespace {

using testing::HasSubstr;
using testing::Not;

PinnedMachine imagined(const char* synthetic) {
  PinnedMachine machine;
  MachineOptions options;
  options.synthetic = synthetic;
  options.gpu_nodes = {1};
  const Result<MachineMap> map = read_machine(options);
  EXPECT_TRUE(map.ok());
  machine.map = *map;
  return machine;
}

std::string page_of(const PinnedMachine& machine, const std::vector<ClaimedCores>& engines = {}) {
  PinSettings settings;
  settings.synthetic = machine.map.source;
  return pin_page(machine, plan_each(settings, machine), &engines, "tandem pin show --html m.html")
      .text();
}

TEST(PinPage, ShowsTheMachineThePlanInWordsAndItsSettings) {
  PinnedMachine machine = imagined("node:2 core:4 pu:2");
  machine.options.workers = 2;
  const std::string page = page_of(machine);
  for (const char* part :
       {"<svg ", ">cpu 15<", "For GPU 0 (", "2 CPU workers have cpus", "a core each",
        ">worker_cpus</th>", "No engine runs here", "tandem pin show --html m.html",
        "16 hardware threads", "<th scope=\"row\">shown</th><td>node:2 core:4 pu:2</td>"}) {
    EXPECT_THAT(page, HasSubstr(part));
  }
  EXPECT_THAT(page, Not(HasSubstr("Kinds of cores"))) << "there is one";
  EXPECT_THAT(page, Not(HasSubstr("quota")));
}

TEST(PinPage, NamesTheQuotaAndTheKindsOfCores) {
  PinnedMachine machine = imagined("node:2 core:4 pu:1");
  machine.map.quota_cpus = 2.5;
  machine.map.quota_source = "/sys/fs/cgroup/x/cpu.max";
  machine.map.core_kinds = {{"IntelCore", 5000}, {"", 0}};
  for (MachineCore& core : machine.map.cores) core.speed_rank = core.node == 1 ? 0 : 1;
  const std::string page = page_of(machine);
  for (const char* part :
       {"CPU time for 2.5 cores (/sys/fs/cgroup/x/cpu.max)", "Kinds of cores", "<td>IntelCore</td>",
        ">5000<", "<td>4-7</td>", "<td>kind 2 of 2</td>"}) {
    EXPECT_THAT(page, HasSubstr(part));
  }
}

TEST(PinPage, NamesTheCoresThatTwoEnginesShare) {
  const std::string page = page_of(
      imagined("node:2 core:4 pu:1"),
      {{100, "first", {0, 1}, {2, 3}}, {200, "second", {1}, {3, 5}}, {300, "third <x>", {}, {7}}});
  EXPECT_THAT(page, HasSubstr("200: cpus 1,3"));
  EXPECT_THAT(page, HasSubstr("100: cpus 1,3"));
  EXPECT_THAT(page, HasSubstr("no other engine"));
  EXPECT_THAT(page, HasSubstr("third &lt;x&gt;"));
  EXPECT_THAT(page, HasSubstr("<dt>engines that run</dt><dd>3</dd>"));
}

TEST(PinPage, SaysWhyThereIsNoPlan) {
  PinnedMachine machine = imagined("node:2 core:1 pu:1");
  machine.options.exclude = {0, 1};
  const std::string page = page_of(machine);
  EXPECT_THAT(page, HasSubstr("There is none: "));
  EXPECT_THAT(page, HasSubstr("<svg "));
}

}  // namespace
}  // namespace tandem
