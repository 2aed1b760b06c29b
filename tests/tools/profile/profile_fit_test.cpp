#include "tools/profile/profile_fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "tools/profile/profile_map.h"
#include "tools/profile/profile_report.h"

namespace tandem {
namespace {

using testing::HasSubstr;

CostModel known_costs() {
  CostModel costs;
  costs.link_bytes_per_s = 50e9;
  costs.copy_s = 3e-6;
  costs.layer_s = 110e-6;
  costs.layer_row_s = 0.7e-6;
  costs.overlap = 0.22;
  costs.prepare = 0.5;
  costs.trip_s = 9e-6;
  costs.row_byte_s = 2.5e-11;
  costs.worker_bytes_per_s = 10e9;
  costs.workers_bytes_per_s = 90e9;
  costs.worker_flops = 0.5e12;
  costs.worker_job_s = 4e-6;
  costs.tokens_per_core = 4;
  return costs;
}

// What a machine with these costs would have measured.
Profile measured(const CostModel& costs, double noise, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> by(1, noise);
  const auto seen = [&](double value) { return value * (noise > 0 ? by(random) : 1); };
  Profile profile;
  profile.model = {"llama-2-7b", 4096, 32, 32, 32, 128, 11008, 32000, DType::bf16};
  profile.machine = {"Some CPU", 16, "NVIDIA H200"};
  profile.date = "2026-11-20T18:50:04Z";
  profile.commit = "abc";
  profile.workers = 12;
  ProfileTable link{"link", {"bytes", "seconds"}, {}};
  for (double bytes = 65536; bytes < 3e7; bytes *= 3) {
    link.rows.push_back({bytes, seen(costs.copy_s + bytes / costs.link_bytes_per_s)});
  }
  ProfileTable prefill{"prefill", {"tokens", "seconds"}, {}};
  ProfileTable decode{"decode", {"batch", "context", "seconds"}, {}};
  for (std::int32_t rows = 1; rows <= 2048; rows *= 2) {
    prefill.rows.push_back({static_cast<double>(rows), seen(32 * costs.layer_time(rows))});
    decode.rows.push_back({static_cast<double>(rows), 512, seen(3e-3 + 1e-5 * rows)});
  }
  const ProfileTable gemm{"gemm", {"rows", "seconds"}, {{1, 4 * costs.overlap * costs.layer_s}}};
  ProfileTable lora{"lora", {"batch", "max_rank", "sum_ranks", "seconds"}, {}};
  for (const double batch : {1., 4., 16., 64.}) {
    for (const double share : {1., 0.5, 0.25}) {
      lora.rows.push_back({batch, 64, batch * 64 * share, seen(3e-6 + 2e-9 * batch * 64 * share)});
    }
  }
  const ProfileTable memory{"memory", {"cores", "bytes_per_s"}, {{1, 10e9}, {4, 40e9}, {12, 90e9}}};
  ProfileTable worker{
      "worker",
      {"workers", "rank", "rows", "by_tokens", "groups", "gap_s", "bytes", "flops", "seconds"},
      {}};
  const double gap_s = costs.prepare * costs.layer_s;
  for (const std::int32_t workers : {1, 4, 12}) {
    for (const std::int32_t rank : {16, 64}) {
      for (const std::int32_t rows : {1, 8, 32, 48, 96, 128}) {
        for (const double groups : {1., 8.}) {
          LayerLoad load;
          load.a_bytes = load.b_bytes = std::int64_t{3} * rank * 4096 * 2;
          load.sites = 1;
          const HandoverWork work = costs.handover(load, rows, workers, false);
          const double best =
              groups * work.workers_s + std::max(0.0, groups * work.stream_s - gap_s);
          const double bytes = groups * static_cast<double>(load.a_bytes + load.b_bytes);
          const bool columns_win = rows <= costs.tokens_per_core * workers;
          for (const double by_tokens : {0., 1.}) {
            const bool wins = (by_tokens == 0) == columns_win;
            worker.rows.push_back({static_cast<double>(workers), static_cast<double>(rank),
                                   static_cast<double>(rows), by_tokens, groups, gap_s, bytes,
                                   bytes * rows, seen(wins ? best : 1.5 * best)});
          }
        }
      }
    }
  }
  ProfileTable trip{"trip", {"rows", "bytes", "seconds"}, {}};
  for (const double rows : {1., 8., 64., 256.}) {
    trip.rows.push_back({rows, rows * 32768, seen(costs.trip_s + costs.row_byte_s * rows * 32768)});
  }
  profile.tables = {link, prefill, decode, gemm, lora, memory, worker, trip};
  return profile;
}

TEST(ProfileFit, FindsTheCostsThatTheSamplesCameFrom) {
  const CostModel costs = known_costs();
  Profile profile = measured(costs, 0, 1);
  const auto notes = fit_profile(profile);
  ASSERT_TRUE(notes.ok()) << notes.status().message();
  EXPECT_TRUE(notes->empty());
  for (const CostField& field : cost_fields()) {
    if (field.member == &CostModel::offer_s) continue;  // not measured
    EXPECT_NEAR(profile.costs.*field.member, costs.*field.member, 0.01 * (costs.*field.member))
        << field.key;
  }
  EXPECT_EQ(profile.costs.tokens_per_core, costs.tokens_per_core);
  for (const ProfileFit& fit : profile.fits) {
    const bool bent = fit.name == "lora (BGMV)" || fit.name == "prefill";  // no line by nature
    EXPECT_GT(fit.r2, bent ? 0 : 0.999) << fit.name;
  }
  EXPECT_LT(profile.fit("lora (BGMV)")->r2, 0.9);  // its ranks are mixed, and it pads nothing
}

TEST(ProfileFit, FindsThemThroughNoise) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const CostModel costs = known_costs();
    Profile profile = measured(costs, 0.03, seed);
    ASSERT_TRUE(fit_profile(profile).ok());
    EXPECT_NEAR(profile.costs.link_bytes_per_s, costs.link_bytes_per_s, 0.1 * 50e9);
    EXPECT_NEAR(profile.costs.layer_s, costs.layer_s, 0.1 * costs.layer_s);
    EXPECT_NEAR(profile.costs.worker_flops, costs.worker_flops, 0.25 * costs.worker_flops);
    EXPECT_GT(profile.fit("worker")->r2, 0.95);
    EXPECT_TRUE(parse_profile(to_json(profile)).ok());
  }
}

TEST(ProfileFit, KeepsTheBuiltInFigureOfWhatWasNotMeasuredAndSaysSo) {
  Profile profile = measured(known_costs(), 0, 1);
  std::erase_if(profile.tables, [](const ProfileTable& table) {
    return table.name == "worker" || table.name == "trip" || table.name == "memory";
  });
  const auto notes = fit_profile(profile);
  ASSERT_TRUE(notes.ok());
  EXPECT_EQ(notes->size(), 3u);
  EXPECT_EQ(profile.costs.worker_flops, CostModel{}.worker_flops);
  EXPECT_NEAR(profile.costs.copy_s, 3e-6, 1e-9);
}

TEST(ProfileFit, NamesATableThatMakesNoSense) {
  Profile profile = measured(known_costs(), 0, 1);
  profile.tables[0].rows = {{1e6, 1e-4}, {1e7, 1e-5}};
  EXPECT_FALSE(fit_profile(profile).ok());
}

TEST(ProfileMap, ReadsQuestions) {
  const auto question =
      parse_question("tokens=8 rank=16 cold=3 link=12.5 cores=4 lead=2 disk=3.5 modules=q,down");
  ASSERT_TRUE(question.ok()) << question.status().message();
  EXPECT_EQ(question->tokens, 8);
  EXPECT_EQ(question->rank, 16);
  EXPECT_EQ(question->cold, 3);
  EXPECT_EQ(question->link, 12.5);
  EXPECT_EQ(question->cores, 4);
  EXPECT_EQ(question->lead_ms, 2);
  EXPECT_EQ(question->disk, 3.5);
  EXPECT_EQ(question->modules, (std::vector<Module>{Module::q, Module::down}));
  EXPECT_EQ(parse_question("modules=all7")->modules.size(), 7u);
  EXPECT_EQ(parse_question("")->tokens, PlanQuestion{}.tokens);
  for (const char* bad :
       {"tokens", "tokens=", "tokens=0", "tokens=1.5", "tokens=x", "rank=513", "cold=65",
        "link=nan", "link=-1", "link=0", "modules=", "modules=head", "modules=q,q", "speed=3", "=3",
        "disk=0", "cores=-1", "tokens=99999999999999"}) {
    EXPECT_FALSE(parse_question(bad).ok()) << bad;
  }
}

TEST(ProfileMap, NamesTheSourceThatWins) {
  Profile profile = measured(known_costs(), 0, 1);
  ASSERT_TRUE(fit_profile(profile).ok());
  PlanQuestion one;
  one.tokens = 1;
  EXPECT_EQ(answer(profile, one).source(), "wait");  // one layer's wait, on a fast link
  PlanQuestion burst;
  burst.tokens = 8;
  burst.cold = 8;
  burst.link = 10;
  EXPECT_NE(answer(profile, burst).source(), "wait");
  burst.cores = 0;
  EXPECT_EQ(answer(profile, burst).source(), "wait");
}

TEST(ProfileMap, IsNeverAboveWaitingAndHasACellForEachCase) {
  Profile profile = measured(known_costs(), 0, 1);
  ASSERT_TRUE(fit_profile(profile).ok());
  const std::vector<double> links = map_links(profile);
  ASSERT_EQ(links.size(), 4u);
  const std::vector<MapCell> cells = plan_map(profile, 12, links);
  EXPECT_EQ(cells.size(), 4u * 2 * 6 * 3);
  for (const MapCell& cell : cells) {
    EXPECT_LE(cell.planned, cell.waiting + 1e-9);
    EXPECT_LE(cell.planned, cell.cpu_alone + 1e-9);
  }
  const std::string text = map_text(cells);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 4 * 14 + 3);
  for (const char* word : {"link 50 GB/s", "link 5 GB/s", "wait", "8 cold"}) {
    EXPECT_THAT(text, HasSubstr(word));
  }
}

TEST(ProfileMap, GivesMoreRowsToMoreCoresAndSlowerLinks) {
  Profile profile = measured(known_costs(), 0, 1);
  ASSERT_TRUE(fit_profile(profile).ok());
  const std::string text = budget_text(profile, {50, 10});
  EXPECT_THAT(text, HasSubstr("10 GB/s"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 6);  // 1, 2, 4, 8, 12 cores
}

TEST(ProfileMap, ExplainsEveryLayerAndWhatItComparesWith) {
  Profile profile = measured(known_costs(), 0, 1);
  ASSERT_TRUE(fit_profile(profile).ok());
  const std::string text = explain_answer(profile, *parse_question("cold=3 link=10"));
  for (const char* word : {"3 cold adapters of rank 64 on q, k, v", "link 10.0 GB/s", "31  ",
                           "waiting for all", "CPU alone"}) {
    EXPECT_THAT(text, HasSubstr(word));
  }
}

TEST(ProfileMap, KnowsThatBytesOnDiskAreNotThereYet) {
  Profile profile = measured(known_costs(), 0, 1);
  ASSERT_TRUE(fit_profile(profile).ok());
  double before = 0;
  for (const char* words :
       {"tokens=8", "tokens=8 disk=100", "tokens=8 disk=3", "tokens=8 disk=1"}) {
    const PlanAnswer found = answer(profile, *parse_question(words));
    EXPECT_GE(found.over_resident(found.planned), before) << words;
    EXPECT_LE(found.over_resident(found.planned), found.over_resident(found.waiting)) << words;
    before = found.over_resident(found.planned);
  }
  // 100.7 MB at 1 GB/s: nobody has the last layer earlier.
  const PlanAnswer slow = answer(profile, *parse_question("tokens=8 disk=1"));
  EXPECT_GT(slow.planned.layer_ends.back(), 0.1006);
  EXPECT_THAT(explain_answer(profile, *parse_question("disk=3")),
              HasSubstr("read from disk at 3.0 GB/s"));
}

TEST(ProfileReport, ShowsCostsFitsAndMap) {
  Profile profile = measured(known_costs(), 0, 1);
  ASSERT_TRUE(fit_profile(profile).ok());
  const std::string text = profile_text(profile);
  for (const char* word : {"50.0 GB/s", "llama-2-7b", "MBGMV", "tokens per core", "8 cold"}) {
    EXPECT_THAT(text, HasSubstr(word));
  }
  const std::string page = profile_page(profile, "tandem profile --quick").text();
  for (const char* word : {"<svg", "Prefill step", "<th scope=\"row\">CPU workers</th><td>12</td>",
                           "R2", "Which source wins where", "tandem profile --quick"}) {
    EXPECT_THAT(page, HasSubstr(word));
  }
  EXPECT_THAT(page, testing::Not(HasSubstr("http://")));
}

TEST(ProfileReport, TellsWhatChanged) {
  Profile profile = measured(known_costs(), 0, 1);
  ASSERT_TRUE(fit_profile(profile).ok());
  EXPECT_EQ(diff_profiles(profile, profile).largest_change, 0);
  Profile later = profile;
  later.costs.link_bytes_per_s *= 1.25;
  const ProfileDiff diff = diff_profiles(profile, later);
  EXPECT_NEAR(diff.largest_change, 0.25, 1e-9);
  EXPECT_THAT(diff.text, HasSubstr("+25.0%"));
  later.machine.cpu = "Another";
  EXPECT_THAT(diff_profiles(profile, later).text, HasSubstr("not of the same machine"));
}

}  // namespace
}  // namespace tandem
