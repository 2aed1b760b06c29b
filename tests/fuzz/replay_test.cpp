// Runs the fuzzers' seeds, including every input that ever made a parser fail, through the same
// functions, so that no error returns.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/fuzz/targets.h"

namespace tandem::fuzz {
namespace {

namespace fs = std::filesystem;

struct Target {
  const char* name;
  void (*run)(Bytes);
};

class Fuzz : public ::testing::TestWithParam<Target> {};

TEST_P(Fuzz, SeedsPass) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(fs::path("fuzz/seeds") / GetParam().name)) {
    files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  ASSERT_FALSE(files.empty());
  for (const fs::path& path : files) {
    SCOPED_TRACE(path);
    std::ifstream file(path, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    // Each seed runs whole and cut short.
    for (const std::size_t length : {bytes.size(), bytes.size() / 2, bytes.size() - 1}) {
      GetParam().run(std::as_bytes(std::span(bytes.data(), std::min(length, bytes.size()))));
    }
  }
}

constexpr Target kTargets[] = {
    {"adapter", fuzz_adapter},
    {"answer", fuzz_answer},
    {"constraint", fuzz_constraint},
    {"control", fuzz_control},
    {"gguf", fuzz_gguf},
    {"http", fuzz_http},
    {"mailbox", fuzz_mailbox},
    {"model", fuzz_model},
#ifdef TANDEM_HAVE_PICKER
    {"picker", fuzz_picker},
#endif
    {"profile", fuzz_profile},
    {"quantised", fuzz_quantised},
    {"recording", fuzz_recording},
    {"request", fuzz_request},
    {"safetensors", fuzz_safetensors},
    {"template", fuzz_template},
    {"tokenizer", fuzz_tokenizer},
    {"tool_calls", fuzz_tool_calls},
};

INSTANTIATE_TEST_SUITE_P(Of, Fuzz, ::testing::ValuesIn(kTargets),
                         [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace tandem::fuzz
