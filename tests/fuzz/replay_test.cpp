// The fuzzers' seeds, among them every input that ever made a parser fail, given to the same
// functions as the fuzzers do: a parser that has been mended stays so.
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
    // Whole, and cut short.
    for (const std::size_t length : {bytes.size(), bytes.size() / 2, bytes.size() - 1}) {
      GetParam().run(std::as_bytes(std::span(bytes.data(), std::min(length, bytes.size()))));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Of, Fuzz,
    ::testing::Values(Target{"adapter", fuzz_adapter}, Target{"constraint", fuzz_constraint},
                      Target{"control", fuzz_control}, Target{"http", fuzz_http},
                      Target{"mailbox", fuzz_mailbox}, Target{"model", fuzz_model},
                      Target{"profile", fuzz_profile}, Target{"recording", fuzz_recording},
                      Target{"request", fuzz_request}, Target{"safetensors", fuzz_safetensors},
                      Target{"template", fuzz_template}, Target{"tokenizer", fuzz_tokenizer},
                      Target{"tool_calls", fuzz_tool_calls}),
    [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace tandem::fuzz
