// Reads /metrics of a real engine as Prometheus does.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/engine/server/cluster_fixture.h"

namespace tandem::test {
namespace {

using nlohmann::json;

struct Series {
  std::string name;
  std::map<std::string, std::string> labels;
  double value = 0;
};

struct Family {
  std::string type;
  std::string help;
  std::vector<Series> series;
};

// Parses the text format, version 0.0.4; invalid text fails the test.
std::map<std::string, Family> parse(const std::string& text) {
  static const std::regex kSeries(R"(([a-zA-Z_:][a-zA-Z0-9_:]*)(\{(.*)\})? (\S+))");
  static const std::regex kLabel(R"re(([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(,|$))re");
  std::map<std::string, Family> families;
  std::set<std::string> seen;
  std::string current;
  EXPECT_TRUE(text.empty() || text.back() == '\n');
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string hash, kind, name;
    if (line.starts_with("# ")) {
      words >> hash >> kind >> name;
      if (kind == "HELP") {
        EXPECT_FALSE(families.contains(name)) << name << " comes twice";
        std::getline(words, families[name].help);
        current = name;
      } else {
        EXPECT_EQ(kind, "TYPE") << line;
        EXPECT_EQ(name, current) << line;
        EXPECT_TRUE(families[name].type.empty() && families[name].series.empty()) << line;
        words >> families[name].type;
      }
      continue;
    }
    std::smatch parts;
    if (!std::regex_match(line, parts, kSeries)) {
      ADD_FAILURE() << "no series: " << line;
      continue;
    }
    Series series{parts[1], {}, 0};
    EXPECT_TRUE(seen.insert(parts[1].str() + parts[2].str()).second) << "twice: " << line;
    const std::string labels = parts[3];
    std::size_t read = 0;
    for (std::sregex_iterator at(labels.begin(), labels.end(), kLabel), end; at != end; ++at) {
      EXPECT_EQ(static_cast<std::size_t>(at->position()), read) << line;
      EXPECT_TRUE(series.labels.emplace((*at)[1], (*at)[2]).second) << line;
      read = static_cast<std::size_t>(at->position() + at->length());
    }
    EXPECT_EQ(read, labels.size()) << line;
    std::size_t digits = 0;
    series.value = std::stod(parts[4], &digits);
    EXPECT_EQ(digits, parts[4].str().size()) << line;
    EXPECT_TRUE(series.name.starts_with(current)) << line << " stands among " << current;
    families[current].series.push_back(std::move(series));
  }
  return families;
}

void check_histogram(const std::string& name, const Family& family) {
  double last = -1;
  double bound = -HUGE_VAL;
  std::optional<double> all, count;
  for (const Series& each : family.series) {
    if (each.name == name + "_count") count = each.value;
    if (each.name != name + "_bucket") continue;
    const double le = std::stod(each.labels.at("le"));
    EXPECT_GT(le, bound) << name;
    EXPECT_GE(each.value, last) << name;
    bound = le;
    last = each.value;
    if (std::isinf(le)) all = each.value;
  }
  EXPECT_EQ(all, count) << name;
  EXPECT_TRUE(count.has_value()) << name;
}

class MetricsTest : public ::testing::Test {
 protected:
  std::map<std::string, Family> families() { return parse(engine.get("/metrics").body); }
  RestEngine engine;
};

TEST_F(MetricsTest, ArePrometheusText) {
  (void)EventReader(
      engine.post("/v1/completions", {{"prompt", "import"}, {"stream", true}, {"model", "python"}}))
      .rest();
  const auto all = families();
  EXPECT_GT(all.size(), 40U);
  for (const auto& [name, family] : all) {
    EXPECT_FALSE(family.help.empty()) << name;
    EXPECT_FALSE(family.series.empty() && name.find("http_requests") == std::string::npos) << name;
    if (family.type == "histogram") {
      check_histogram(name, family);
      continue;
    }
    EXPECT_TRUE(family.type == "gauge" || family.type == "counter") << name << family.type;
    for (const Series& each : family.series) EXPECT_EQ(each.name, name);
    if (family.type == "counter") {
      EXPECT_TRUE(name.ends_with("_total")) << name;
    }
  }
}

// These metrics are read by the Gateway API's pickers and llm-d.
TEST_F(MetricsTest, TellPickersWhichAdaptersAreThere) {
  (void)EventReader(
      engine.post("/v1/completions", {{"prompt", "import"}, {"stream", true}, {"model", "python"}}))
      .rest();
  const auto all = families();
  for (const char* const name :
       {"vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"}) {
    EXPECT_TRUE(all.contains(name)) << name;
  }
  const Series& cache = all.at("vllm:cache_config_info").series.front();
  EXPECT_EQ(cache.labels.at("block_size"), "16");
  EXPECT_EQ(cache.labels.at("num_gpu_blocks"),
            std::to_string(engine.engine->engine->options().num_pages));
  const Series& info = all.at("vllm:lora_requests_info").series.front();
  EXPECT_EQ(info.labels.at("running_lora_adapters"), "python") << "resident, though it is idle";
  EXPECT_EQ(info.labels.at("waiting_lora_adapters"), "");
  EXPECT_EQ(info.labels.at("max_lora"), "8");
  std::map<std::string, std::string> levels;
  for (const Series& each : all.at("vllm:lora_adapter_loaded").series) {
    EXPECT_EQ(each.value, 1);
    EXPECT_EQ(each.labels.at("pinned"), "false");
    levels[each.labels.at("adapter_name") + each.labels.at("rank")] = each.labels.at("level");
  }
  const std::map<std::string, std::string> expected{
      {"cheader32", "cpu"}, {"docstring64", "cpu"}, {"license8", "cpu"}, {"python16", "gpu"}};
  EXPECT_EQ(levels, expected);
  check_histogram("vllm:lora_adapter_load_seconds", all.at("vllm:lora_adapter_load_seconds"));
  double loads = 0;
  for (const Series& each : all.at("vllm:lora_adapter_load_seconds").series) {
    if (each.name.ends_with("_count")) loads = each.value;
  }
  EXPECT_EQ(loads, 1);
}

}  // namespace
}  // namespace tandem::test
