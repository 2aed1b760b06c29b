#include "tools/bench/papers/experiment.h"

#include <gtest/gtest.h>

#include <set>

#include "tools/bench/papers/paper_machines.h"
#include "tools/bench/papers/papers_report.h"

namespace tandem::papers {
namespace {

TEST(Experiments, HaveIdsOfTheirOwnAndSayWhatThePaperShows) {
  std::set<std::string_view> ids;
  for (const Experiment& each : experiments()) {
    EXPECT_TRUE(ids.insert(each.id).second) << each.id;
    for (const std::string_view text : {each.figure, each.claim, each.setting, each.theirs,
                                        each.how, each.x_label, each.y_label}) {
      EXPECT_FALSE(text.empty()) << each.id;
      EXPECT_EQ(text.find('|'), std::string_view::npos) << each.id << ": the page has tables";
    }
  }
}

TEST(Findings, KeepPointsBySeriesAndTheReasonOfAClaimThatIsNotShown) {
  Findings found;
  found.add("a", 1, 10);
  found.add("b", 1, 20);
  found.add("a", 2, 30);
  EXPECT_EQ(found.series.size(), 2U);
  EXPECT_EQ(found.at("a", 2), 30);
  found.judge(true, "no reason");
  EXPECT_EQ(found.verdict, Verdict::shown);
  EXPECT_EQ(found.why, "");
  found.judge(false, "a reason");
  EXPECT_EQ(found.verdict, Verdict::not_shown);
  EXPECT_EQ(found.why, "a reason");
}

TEST(PapersPage, HasClaimsThatAreNotShownFirst) {
  std::vector<PaperRow> rows;
  for (const Experiment& each : experiments()) {
    rows.push_back({&each, {}, 0});
    rows.back().found.judge(each.id != "s-lora-9", "it differs");
  }
  const std::string page = papers_page("a command", rows).text();
  EXPECT_LT(page.find("S-LoRA, figure 9"), page.find("Punica, figure 1"));
}

TEST(PaperMachines, ScaleTheA10AsDataSheetsSay) {
  const SimMachine a10 = paper_machine(LoraKernel::bgmv, kLlama7b, kA10);
  const SimMachine simulated = sim_machine("a10", LoraKernel::bgmv).value();
  EXPECT_DOUBLE_EQ(a10.costs.step_s, simulated.costs.step_s);
  EXPECT_EQ(a10.bytes_per_rank, simulated.bytes_per_rank);
  const SimMachine two = paper_machine(LoraKernel::bgmv, kLlama13b, kA10, 2);
  EXPECT_NEAR(two.costs.step_s / a10.costs.step_s, 13.0 / 6.74 / 2, 1e-9);
  const SimMachine a100 = paper_machine(LoraKernel::bgmv, kLlama7b, kA100_80);
  EXPECT_NEAR(a10.costs.step_s / a100.costs.step_s, 2039.0 / 600, 1e-9);
  EXPECT_GT(a100.kv_tokens, 5 * a10.kv_tokens);
}

}  // namespace
}  // namespace tandem::papers
