// Runs `tandem` in unusual environments: forbidden system calls, empty kernel folders, invalid
// machine files, outputs that cannot be written.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/threads/thread_cpus.h"
#include "tests/support/sanitized.h"
#include "tests/support/temp_dir.h"
#include "tests/tools/process.h"

namespace tandem {
namespace {

using tandem::testing::TempDir;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kImpossible = 77;  // exit status of odd_surroundings
constexpr const char* kNodes = "/sys/devices/system/node";

// Returns the path of a program built beside this one.
std::string odd_surroundings() {
  const auto ours = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  return ours / "odd_surroundings";
}

std::vector<std::string> within(std::vector<std::string> surroundings,
                                const std::vector<std::string>& args) {
  surroundings.insert(surroundings.end(), {"--", program_under_test()});
  surroundings.insert(surroundings.end(), args.begin(), args.end());
  return surroundings;
}

// Runs `tandem ARGS` in this environment; directly if it is empty.
Finished run_within(std::vector<std::string> surroundings, const std::vector<std::string>& args,
                    ProcessOptions options = {}) {
  options.program = odd_surroundings();
  return run_tandem(within(std::move(surroundings), args), std::move(options));
}

TEST(PinShowInOddPlaces, TakesAnEmptyFolderOfNodesForOneNode) {
  const Finished run = run_within({std::string("empty=") + kNodes}, {"pin", "show"});
  if (run.status == kImpossible) GTEST_SKIP() << run.error;
  EXPECT_EQ(run.status, 0) << run.error;
  EXPECT_THAT(run.output,
              AllOf(HasSubstr("1 NUMA node"), HasSubstr("usable by this process: cpu")));
}

TEST(PinShowInOddPlaces, TakesAnEmptyFolderOfNodesWhereCpusCannotBeAskedEither) {
  const Finished run =
      run_within({std::string("empty=") + kNodes, "deny=sched_setaffinity"}, {"pin", "show"});
  if (run.status == kImpossible) GTEST_SKIP() << run.error;
  EXPECT_EQ(run.status, 0) << run.error;
  EXPECT_THAT(run.output, HasSubstr("usable by this process: cpu"));
}

TEST(PinShowInOddPlaces, ReadsWhatMayBeUsedWhereTheSystemCallForItIsForbidden) {
  const Finished asked = run_within({}, {"pin", "show"});
  const Finished run = run_within({"deny=sched_getaffinity"}, {"pin", "show"});
  EXPECT_EQ(run.status, 0) << run.error;
  EXPECT_EQ(run.output, asked.output);
}

TEST(PinShowXml, RefusesAPipeInPlaceOfWaitingForIt) {
  const TempDir folder;
  const std::string pipe = folder.path() / "machine.xml";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const Finished run = run_tandem({"pin", "show", "--xml", pipe});
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.error, HasSubstr(pipe + " is not a regular file"));
}

TEST(PinShowXml, RefusesElementsThatAreNestedTooDeep) {
  const TempDir folder;
  const std::string path = folder.path() / "deep.xml";
  std::ofstream file(path);
  file << "<topology version=\"2.0\">";
  for (int i = 0; i < 20000; ++i) file << "<object type=\"Group\" cpuset=\"0x1\">";
  file.close();
  const Finished run = run_tandem({"pin", "show", "--xml", path});
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.error, HasSubstr("nested more than 256 deep"));
}

TEST(PinShowXml, ShowsNamesWithoutTheirControlCharacters) {
  std::ifstream known("data/machines/two_sockets.xml");
  std::string xml{std::istreambuf_iterator<char>(known), {}};
  for (const char* name : {"Example 9004", "GH100 [H200 SXM 141GB]"}) {
    const std::size_t at = xml.find(name);
    ASSERT_NE(at, std::string::npos);
    xml.replace(at, std::string(name).size(), "two\033[31m\nlines\xff &lt;b&gt;");
  }
  const TempDir folder;
  const std::string path = folder.path() / "machine.xml";
  std::ofstream(path) << xml;
  const std::string svg = folder.path() / "machine.svg";
  const Finished run = run_tandem({"pin", "show", "--xml", path, "--svg", svg});
  EXPECT_EQ(run.status, 0) << run.error;
  EXPECT_THAT(run.output, AllOf(HasSubstr("two\uFFFD[31m\uFFFDlines\uFFFD <b>"),
                                Not(HasSubstr("\033")), Not(HasSubstr("two\n"))));
  const Finished json = run_tandem({"pin", "show", "--xml", path, "--json"});
  EXPECT_EQ(json.status, 0) << json.error;
  EXPECT_TRUE(nlohmann::json::accept(json.output));
  std::ifstream drawn(svg);
  const std::string picture{std::istreambuf_iterator<char>(drawn), {}};
  EXPECT_THAT(picture,
              AllOf(HasSubstr("&lt;b&gt;"), Not(HasSubstr("\033")), Not(HasSubstr("<b>"))));
}

TEST(StandardOutput, ThatTakesNothingIsAFailureOfEveryCommand) {
  ProcessOptions full_disk;
  full_disk.output_file = "/dev/full";
  const std::vector<std::vector<std::string>> commands = {
      {"pin", "show"}, {"--version"}, {"--help"}, {"serve", "--help"}, {"man", "pin show"}};
  for (const std::vector<std::string>& command : commands) {
    const Finished run = run_tandem(command, full_disk);
    EXPECT_EQ(run.status, 1) << command.front();
    EXPECT_THAT(run.error, HasSubstr("standard output has not taken everything: No space left"))
        << command.front();
  }
}

TEST(FilesThatMayNotGrow, AreErrorsOfTheirWrites) {
  const TempDir folder;
  const std::string svg = folder.path() / "machine.svg";
  const Finished run = run_within({"file_bytes=100"}, {"pin", "show", "--svg", svg});
  EXPECT_EQ(run.status, 1);
  EXPECT_THAT(run.error, HasSubstr("svg: " + svg + ": File too large"));
}

TEST(ServeInOddPlaces, KnowsCpusBeyondTheThousandthByTheirNumbers) {
  if (sanitized()) GTEST_SKIP() << "the sanitizer's runtime must come first";
  ProcessOptions options;
  options.environment = {{"LD_PRELOAD", TANDEM_MANY_CPUS}, {"MANY_CPUS", "3000"}};
  const Finished run = run_tandem({"serve", "--model", "data/demo-llama", "--device", "host",
                                   "--cpus", "0-3000", "--port", "0"},
                                  options);
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.error, HasSubstr("may not run on core 3000; it may on 0-2999"));
}

// Arguments of `tandem serve` with a worker for cold adapters.
std::vector<std::string> serve_with_worker() {
  return {"serve",
          "--model",
          "data/demo-llama",
          "--adapters",
          "data/demo-llama/adapters",
          "--device",
          "host",
          "--pin",
          "--worker-cpus",
          std::to_string(cpus_of_thread().front()),
          "--no-calibrate",
          "--learned-costs",
          "none",
          "--port",
          "0"};
}

TEST(ServeInOddPlaces, GoesOnUnpinnedWhereCoresMayNotBeChosen) {
  ProcessOptions options;
  options.program = odd_surroundings();
  ReadyServer server(within({"deny=sched_setaffinity"}, serve_with_worker()), options);
  ASSERT_NE(server.port, 0) << server.process.error();
  EXPECT_TRUE(server.process.wait_for_error("a worker could not be bound to its core"));
  EXPECT_THAT(server.process.error(), HasSubstr("cannot pin"));
  server.process.send_signal(SIGTERM);
  EXPECT_EQ(server.process.wait(), 0) << server.process.error();
  EXPECT_THAT(server.process.error(), Not(HasSubstr("worker ended")));
}

TEST(ServeInOddPlaces, StartsWhereTheKernelsFolderOfNodesIsEmpty) {
  ProcessOptions options;
  options.program = odd_surroundings();
  ReadyServer server(within({std::string("empty=") + kNodes}, serve_with_worker()), options);
  server.process.read_what_is_there();
  if (server.process.error().find("cannot make empty=") != std::string::npos) GTEST_SKIP();
  ASSERT_NE(server.port, 0) << server.process.error();
  server.process.send_signal(SIGTERM);
  EXPECT_EQ(server.process.wait(), 0) << server.process.error();
}

TEST(PinCheckFromElsewhere, SaysThatTheEngineHasItsOwnMounts) {
  ProcessOptions options;
  options.program = odd_surroundings();
  ReadyServer server(within({"empty=/dev/shm"}, serve_with_worker()), options);
  server.process.read_what_is_there();
  if (server.process.error().find("cannot make empty=") != std::string::npos) GTEST_SKIP();
  ASSERT_NE(server.port, 0) << server.process.error();
  const std::string pid = std::to_string(server.process.pid());
  const Finished run = run_tandem({"pin", "check", "--engine", pid});
  EXPECT_EQ(run.status, 1);
  EXPECT_THAT(run.error, HasSubstr("process " + pid + " serves in another mount namespace"));
  EXPECT_THAT(run.error,
              HasSubstr("nsenter -t " + pid + " -m -p tandem pin check --engine " + pid));
}

TEST(ProfileCommand, SaysThatItCannotWriteBeforeItMeasures) {
  const TempDir folder;
  const std::string file = folder.path() / "file";
  std::ofstream(file) << "text";
  const std::vector<std::string> measure = {"profile", "--device", "host",
                                            "--quick", "--model",  "data/demo-llama"};
  const auto profile = [&](std::vector<std::string> flags) {
    flags.insert(flags.begin(), measure.begin(), measure.end());
    return run_within({"file_bytes=1000"}, flags);
  };
  const std::string good = folder.path() / "profile.json";
  EXPECT_THAT(profile({"--out", file + "/profile.json"}).error,
              HasSubstr("out: " + file + "/profile.json: Not a directory"));
  EXPECT_THAT(profile({"--out", "/dev/null"}).error, HasSubstr("/dev/null is not a regular file"));
  EXPECT_THAT(profile({"--out", good}).error, HasSubstr("File too large"));
  const Finished html = run_tandem({"profile", "--device", "host", "--quick", "--model",
                                    "data/demo-llama", "--out", good, "--html", folder.path()});
  EXPECT_NE(html.status, 0);
  EXPECT_THAT(html.error, HasSubstr("html: " + folder.path().string() + ": Is a directory"));
  EXPECT_EQ(html.output, "") << "nothing has been measured";
  EXPECT_FALSE(std::filesystem::exists(good));
}

}  // namespace
}  // namespace tandem
