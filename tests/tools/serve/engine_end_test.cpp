// A real server's engine ends for good, because it gets no memory however often it restarts. The
// process logs the reason and ends in bounded time, whatever its clients do; each client gets an
// error, and nothing is left behind.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/check.h"
#include "scheduler/cluster/registry/registry.h"
#include "tests/support/memory_faults.h"
#include "tests/support/temp_dir.h"
#include "tests/tools/process.h"
#include "tests/tools/serve/worker_faults.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;
using std::chrono::steady_clock;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::MemoryFaults;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr int kDrainTimeoutS = 10;
// drain_timeout_s, the second that every end is given, and one second for the engine to find out
// that it has no memory: twelve tries, 10 ms apart. The rest is for a busy machine.
constexpr seconds kLongestEnd{kDrainTimeoutS + 7};

// The memory shared with the library of failing_memory_preload.cpp.
class SharedFaults {
 public:
  SharedFaults() : path_(dir_.write("faults", std::string(sizeof(MemoryFaults), '\0'))) {
    const int file = open(path_.c_str(), O_RDWR | O_CLOEXEC);
    void* const mapped =
        mmap(nullptr, sizeof(MemoryFaults), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    TANDEM_CHECK(mapped != MAP_FAILED, "mmap {}", path_.string());
    close(file);
    faults_ = static_cast<MemoryFaults*>(mapped);
  }
  ~SharedFaults() { munmap(faults_, sizeof(MemoryFaults)); }
  SharedFaults(const SharedFaults&) = delete;
  SharedFaults& operator=(const SharedFaults&) = delete;

  ProcessOptions for_process() const {
    ProcessOptions options;
    options.environment = {{"LD_PRELOAD", TANDEM_FAILING_MEMORY},
                           {testing::kMemoryFaultsVariable, path_.string()}};
    return options;
  }
  MemoryFaults* operator->() const { return faults_; }

 private:
  const testing::TempDir dir_;
  const fs::path path_;
  MemoryFaults* faults_ = nullptr;
};

// Returns the thread of this name; 0: there is none.
pid_t thread_of(pid_t process, const std::string& name) {
  for (const auto& task : fs::directory_iterator("/proc/" + std::to_string(process) + "/task")) {
    std::string line;
    std::getline(std::ifstream(task.path() / "comm"), line);
    if (line == name) return std::stoi(task.path().filename());
  }
  return 0;
}

class EngineEnd : public ::testing::Test {
 protected:
  EngineEnd()
      : server_({"serve",
                 "--model",
                 "data/demo-llama",
                 "--adapters",
                 "data/demo-llama/adapters",
                 "--port",
                 "0",
                 "--no-pin",
                 "--device",
                 "host",
                 "--pool-gb",
                 "0.25",
                 "--adapter-mode",
                 "cpu_assist",
                 "--cpu-workers",
                 "1",
                 "--drain-timeout-s",
                 std::to_string(kDrainTimeoutS),
                 "--registry",
                 url_},
                faults_.for_process()) {}

  nlohmann::json long_request() const {
    return {{"prompt", "def f("},
            {"model", "python"},
            {"max_tokens", 900},
            {"temperature", 0},
            {"stream", true},
            {"ignore_eos", true},
            {"n", 2}};
  }
  std::unique_ptr<HttpExchange> ask(const nlohmann::json& body) const {
    return std::make_unique<HttpExchange>(server_.port, "POST", "/v1/completions", body.dump());
  }
  std::vector<EngineEntry> registered() const {
    return (*open_registry(url_))->snapshot()->engines;
  }

  const testing::TempDir dir_;
  const std::string url_ = "sqlite:" + (dir_.path() / "registry.db").string();
  const SharedFaults faults_;
  ReadyServer server_;
};

TEST_F(EngineEnd, IsTheEndOfTheProcessInBoundedTimeWhateverClientsDo) {
  ASSERT_NE(server_.port, 0) << server_.process.error();
  const pid_t pid = server_.process.pid();
  ASSERT_THAT(registered(), SizeIs(1));
  ASSERT_THAT(workers_of(pid), SizeIs(1));
  ASSERT_THAT(regions_of(pid), Not(IsEmpty()));
  const pid_t engine = thread_of(pid, "engine");
  ASSERT_NE(engine, 0);

  nlohmann::json huge = long_request();  // far more than socket buffers hold
  huge["n"] = 32;
  huge["logprobs"] = 20;
  const auto never_reads = ask(huge);
  nlohmann::json whole = long_request();
  whole["stream"] = false;
  const auto waits = ask(whole);
  std::vector<std::unique_ptr<HttpExchange>> streams;
  for (int i = 0; i < 3; ++i) {
    streams.push_back(ask(long_request()));
    ASSERT_TRUE(streams.back()->read_until("data: ")) << i;
  }

  const auto begin = steady_clock::now();
  faults_->thread.store(engine);
  for (const auto& stream : streams) {
    const std::string said = stream->read_all();
    EXPECT_THAT(said, HasSubstr(R"("error")"));
    EXPECT_THAT(said, HasSubstr("\ndata: [DONE]"));
  }
  EXPECT_THAT(waits->read_all(), StartsWith("HTTP/1.1 500"));
  // An idle engine needs no memory and does not end, so requests are sent.
  const nlohmann::json small{{"prompt", "def f("}, {"max_tokens", 4}};
  int asked = 0;
  for (std::string said = "anything"; !said.empty(); ++asked) {
    ASSERT_LT(steady_clock::now() - begin, kLongestEnd) << server_.process.error();
    said = ask(small)->read_all();
    EXPECT_THAT(said, AnyOf(IsEmpty(), StartsWith("HTTP/1.1 500"), StartsWith("HTTP/1.1 503")));
    server_.process.read_what_is_there();
  }
  const int status = server_.process.wait();
  const auto took = steady_clock::now() - begin;
  EXPECT_LT(took, kLongestEnd);
  EXPECT_EQ(status, 1) << server_.process.error();
  EXPECT_THAT(server_.process.error(),
              HasSubstr("tandem serve: the engine has ended: the engine has no memory left"));
  EXPECT_GT(faults_->failed.load(), 0);
  EXPECT_THAT(workers_of(pid), IsEmpty());
  EXPECT_THAT(regions_of(pid), IsEmpty());
  EXPECT_THAT(registered(), IsEmpty());
}

}  // namespace
}  // namespace tandem
