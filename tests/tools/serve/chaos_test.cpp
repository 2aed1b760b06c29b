// Tests a real server under disturbances: clients disappear, close their half, never read and send
// garbage; adapters are loaded again in place, and truncated or deleted on disk; its CPU workers
// are killed, stopped and write garbage; /dev/shm fills up if the test can have its own. Meanwhile
// every valid request gets the text of an undisturbed server, and afterwards the server holds no
// more resources than before.
//
//  TANDEM_TEST_CHAOS_SECONDS=1800  duration; default: 30, or 4 under a sanitizer
//  TANDEM_TEST_SEED=1              seed of the disturbances; printed by each run
//  TANDEM_TEST_PROGRAM=FILE        the `tandem` to test; default: this build's
#include <arpa/inet.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <thread>
#include <utility>

#include "base/check.h"
#include "tests/support/sanitized.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_seed.h"
#include "tests/tools/process.h"
#include "tests/tools/serve/besieged_server.h"
#include "tests/tools/serve/private_shm.h"
#include "tests/tools/serve/worker_faults.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

const int kDefaultSeconds = sanitized() ? 4 : 30;
const int kMaxTokens = sanitized() ? 4 : 16;
const std::int64_t kMaxGrowthKb =
    sanitized() ? 512 << 10 : 48 << 10;  // freed memory is kept by the sanitizer
constexpr std::size_t kNeverRead = 6;    // number of clients that never read, at any time

std::vector<std::string> serve(const std::string& mode, const fs::path& adapters) {
  ServeChoices choices;
  choices.mode = mode;
  choices.adapters = adapters;
  choices.adapter_root = adapters.parent_path();
  std::vector<std::string> words = serve_with_workers(choices);
  words.insert(words.end(), {"--host-tier-gb", "0.03"});
  return words;
}

std::string body_of(const std::string& answer) {
  const std::size_t end = answer.find("\r\n\r\n");
  return end == std::string::npos ? "" : answer.substr(end + 4);
}

// Returns the text of an answer that is not streamed; nothing if there is none.
std::optional<std::string> text_of(std::string answer) {
  // A client that has closed its half may get interim responses, which check whether it still
  // reads.
  while (answer.starts_with("HTTP/1.1 100")) answer = body_of(answer);
  if (!answer.starts_with("HTTP/1.1 200")) return std::nullopt;
  const nlohmann::json json = nlohmann::json::parse(body_of(answer), nullptr, false);
  if (!json.is_object() || !json.contains("choices")) return std::nullopt;
  return json["choices"][0]["text"].get<std::string>();
}

std::string completions(const nlohmann::json& ask) {
  const std::string body = ask.dump();
  return fmt::format(
      "POST /v1/completions HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
      "Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{}",
      body.size(), body);
}

// Returns the answer to a well-behaved client.
std::string answer_to(int port, const nlohmann::json& ask) {
  return HttpExchange(port, "POST", "/v1/completions", ask.dump()).read_all();
}

// A client with full control of its socket.
class Socket {
 public:
  explicit Socket(int port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    TANDEM_CHECK(fd_ >= 0);
    const timeval timeout = {60, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    TANDEM_CHECK(::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  }
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Socket() {
    if (fd_ >= 0) ::close(fd_);
  }
  void send(std::string_view bytes) const {
    // The server may have refused the request and closed the connection already.
    (void)::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  void end_sending() const { ::shutdown(fd_, SHUT_WR); }
  void reset() const {
    const linger at_once = {1, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  }
  std::string read_some() const {
    std::string bytes(4096, '\0');
    const ssize_t count = ::recv(fd_, bytes.data(), bytes.size(), 0);
    bytes.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
    return bytes;
  }
  std::string read_all() const {
    std::string all;
    for (std::string some = read_some(); !some.empty(); some = read_some()) all += some;
    return all;
  }

 private:
  int fd_;
};

// Resources of a process according to the kernel.
struct Holdings {
  std::int64_t descriptors = 0, threads = 0, resident_kb = 0;

  static Holdings of(pid_t pid) {
    const fs::path folder = fs::path("/proc") / std::to_string(pid);
    Holdings now;
    now.descriptors = std::distance(fs::directory_iterator(folder / "fd"), {});
    std::ifstream status(folder / "status");
    for (std::string word; status >> word;) {
      if (word == "Threads:") status >> now.threads;
      if (word == "VmRSS:") status >> now.resident_kb;
    }
    return now;
  }
};

struct Ask {
  nlohmann::json json;
  std::string wanted;
};

// All disturbances at the same time, with one thread per kind. The first failure ends them all.
class Neighbourhood {
 public:
  Neighbourhood(int port, const std::vector<Ask>& asks, fs::path adapters, unsigned seed)
      : port_(port), asks_(asks), adapters_(std::move(adapters)) {
    for (const auto act : {&Neighbourhood::ask, &Neighbourhood::ask, &Neighbourhood::misbehave,
                           &Neighbourhood::change_adapters}) {
      crowd_.add([this, act](std::mt19937& random) { (this->*act)(random); }, seed++);
    }
  }
  // Sometimes all of the shared memory is taken.
  void fill_shared_memory(unsigned seed) {
    crowd_.add(
        [this](std::mt19937& random) {
          std::this_thread::sleep_for(milliseconds(random() % 400));
          const FullShm full;
          std::this_thread::sleep_for(milliseconds(random() % 200));
          if (full.bytes() > 0) count("shared memory full");
        },
        seed);
  }
  Crowd& crowd() { return crowd_; }

 private:
  void count(const std::string& what) { crowd_.count(what); }
  void fail(const std::string& what) { crowd_.fail(what); }
  const Ask& some(std::mt19937& random) const { return asks_[random() % asks_.size()]; }
  void expect_text(const std::string& what, const std::string& answer, const std::string& wanted) {
    if (text_of(answer) != wanted) {
      return fail(fmt::format("{}: wanted '{}', got\n{}", what, wanted, answer));
    }
    count(what);
  }

  void ask(std::mt19937& random) {
    const Ask& one = some(random);
    expect_text("right", answer_to(port_, one.json), one.wanted);
  }

  void misbehave(std::mt19937& random) {
    const Ask& one = some(random);
    nlohmann::json stream = one.json;
    stream["stream"] = true;
    stream["max_tokens"] = 200;
    Socket client(port_);
    switch (random() % 7) {
      case 0: {
        const std::string request = completions(one.json);
        client.send(std::string_view(request).substr(0, random() % request.size()));
        return count("gone before it had asked");
      }
      case 1:
        client.send(completions(stream));
        (void)client.read_some();
        if (random() % 2 == 0) client.reset();
        return count("gone in its answer");
      case 2:
        client.send(completions(one.json));
        client.end_sending();
        return expect_text("half closed", client.read_all(), one.wanted);
      case 3:
        client.send(completions(stream));
        silent_.push_back(std::move(client));
        if (silent_.size() > kNeverRead) silent_.pop_front();
        return count("never reads");
      case 4: {
        std::string garbage(random() % 3000, '\0');
        for (char& byte : garbage) byte = static_cast<char>(random());
        client.send(garbage);
        return count("garbage");
      }
      case 5: {
        std::string request = completions(one.json);
        for (int i = 0; i < 3; ++i)
          request[random() % request.size()] = static_cast<char>(random());
        client.send(request);
        client.end_sending();
        (void)client.read_all();
        return count("nearly a request");
      }
      default:
        client.send(
            "POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n"
            "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
        if (const std::string answer = client.read_all(); !answer.starts_with("HTTP/1.1 400")) {
          return fail("two lengths: " + answer);
        }
        count("two lengths");
    }
  }

  // No answer may reveal where the server keeps its files.
  int post(const std::string& path, const nlohmann::json& body, std::string& answer) {
    answer = HttpExchange(port_, "POST", path, body.dump()).read_all();
    if (answer.find(adapters_.parent_path().string()) != std::string::npos) {
      fail("tells a path: " + answer);
    }
    return answer.size() > 12 ? std::atoi(answer.c_str() + 9) : 0;
  }
  void expect_status(const char* what, int status, int wanted, const std::string& answer) {
    if (status != wanted) return fail(fmt::format("{}: wanted {}, got {}", what, wanted, answer));
    count(what);
  }

  void change_adapters(std::mt19937& random) {
    std::string answer;
    const std::string name = asks_[random() % asks_.size()].json["model"];
    const fs::path folder = adapters_ / name;
    if (!fs::exists(folder)) return;  // the base model has no folder
    const fs::path copy = adapters_.parent_path() / fmt::format("copy-{}", random());
    switch (random() % 3) {
      case 0: {
        // Replaces the files by others with the same bytes.
        fs::copy(folder, copy);
        for (const char* file : {"adapter_config.json", "adapter_model.safetensors"}) {
          fs::rename(copy / file, folder / file);
        }
        fs::remove(copy);
        const nlohmann::json load = {
            {"lora_name", name}, {"lora_path", folder}, {"load_inplace", true}};
        const int status = post("/v1/load_lora_adapter", load, answer);
        return expect_status("loaded again in place", status, 200, answer);
      }
      case 1: {
        fs::copy(folder, copy);
        const fs::path weights = copy / "adapter_model.safetensors";
        fs::resize_file(weights, random() % fs::file_size(weights));
        const int status =
            post("/v1/load_lora_adapter", {{"lora_name", "cut"}, {"lora_path", copy}}, answer);
        fs::remove_all(copy);
        return expect_status("cut short", status, 400, answer);
      }
      default: {
        fs::copy(folder, copy);
        int status =
            post("/v1/load_lora_adapter", {{"lora_name", "gone"}, {"lora_path", copy}}, answer);
        expect_status("loaded", status, 200, answer);
        fs::remove_all(copy);
        // A loaded adapter answers correctly or, if it has to be read again, is refused.
        for (const Ask& one : asks_) {
          if (one.json["model"] != name) continue;
          nlohmann::json ask = one.json;
          ask["model"] = "gone";
          (void)post("/v1/completions", ask, answer);
          const auto text = text_of(answer);
          if (text && *text != one.wanted) fail("deleted on disk: " + answer);
          count(text ? "right though deleted" : "refused as deleted");
          break;
        }
        status = post("/v1/unload_lora_adapter", {{"lora_name", "gone"}}, answer);
        return expect_status("unloaded", status, 200, answer);
      }
    }
  }

  const int port_;
  const std::vector<Ask>& asks_;
  const fs::path adapters_;
  std::deque<Socket> silent_;  // used by misbehave()
  Crowd crowd_;                // last: its threads use the other members
};

class Chaos : public ::testing::Test {
 protected:
  void SetUp() override {
    constexpr std::size_t kSharedMemory = std::size_t{128} << 20;
    if (const std::string why = make_shm_private(kSharedMemory); why.empty()) {
      has_own_shm_ = true;
    } else {
      fmt::print("/dev/shm is not filled up, as the test may have none of its own: {}\n", why);
    }
    fs::copy("data/demo-llama/adapters", adapters_, fs::copy_options::recursive);
    ReadyServer oracle(serve("cached", adapters_));
    ASSERT_GT(oracle.port, 0) << oracle.process.error();
    const std::string prompts[] = {
        "def read_lines(path, encoding=\"utf-8\"):\n    \"\"\"",
        "The GNU General Public License is a free, copyleft license for"};
    for (const char* model : {"cheader", "docstring", "license", "python", "demo-llama"}) {
      for (const std::string& prompt : prompts) {
        Ask one{{{"model", model},
                 {"prompt", prompt},
                 {"max_tokens", kMaxTokens - static_cast<int>(asks_.size() % 3)},
                 {"ignore_eos", true},
                 {"temperature", 0}},
                ""};
        const auto text = text_of(answer_to(oracle.port, one.json));
        ASSERT_TRUE(text.has_value());
        one.wanted = *text;
        asks_.push_back(std::move(one));
      }
    }
    expect_end(oracle, SIGTERM);
  }

  // Disturbs the server for this time, then heals it. Prints the events.
  void disturb(ReadyServer& server, FaultInjector& faults, milliseconds length, unsigned seed) {
    Neighbourhood all(server.port, asks_, adapters_, seed);
    if (has_own_shm_) all.fill_shared_memory(seed + 100);
    std::mt19937 random(seed);
    const auto finish = steady_clock::now() + length;
    while (steady_clock::now() < finish && !all.crowd().failed()) {
      faults.act();
      server.process.read_what_is_there();
      std::this_thread::sleep_for(milliseconds(random() % 200));
    }
    faults.heal();
    all.crowd().stop();
    EXPECT_EQ(all.crowd().failure(), "") << faults.history() << server.process.error();
    for (const auto& [what, count] : all.crowd().counts()) fmt::print("{:6} {}\n", count, what);
    EXPECT_GT(all.crowd().counts()["right"], 0);
  }
  // All connections of clients have ended when a single request is answered.
  void expect_text_of_each(ReadyServer& server) {
    for (const Ask& one : asks_) {
      EXPECT_EQ(text_of(answer_to(server.port, one.json)), one.wanted) << one.json;
    }
  }

  const testing::TempDir dir_;
  const fs::path adapters_ = dir_.path() / "adapters";
  std::vector<Ask> asks_;
  bool has_own_shm_ = false;
};

TEST_F(Chaos, LeavesSoundRequestsRightAndNothingBehind) {
  const auto seed = static_cast<unsigned>(test_seed());
  const char* const given = std::getenv("TANDEM_TEST_CHAOS_SECONDS");
  const milliseconds length(1000 * (given == nullptr ? kDefaultSeconds : std::stoi(given)));
  ReadyServer server(serve("planned", adapters_));
  ASSERT_GT(server.port, 0) << server.process.error();
  const pid_t engine = server.process.pid();
  FaultInjector faults(engine, seed);

  // The first third warms up: pools of memory, threads and descriptors grow to the needed size.
  disturb(server, faults, length / 3, seed);
  expect_text_of_each(server);
  const Holdings before = Holdings::of(engine);
  disturb(server, faults, length * 2 / 3, seed + 1000);
  expect_text_of_each(server);

  Holdings after;
  const auto flat = [&] {
    after = Holdings::of(engine);
    return after.descriptors <= before.descriptors + 8 && after.threads <= before.threads + 2 &&
           after.resident_kb <= before.resident_kb + kMaxGrowthKb;
  };
  EXPECT_TRUE(eventually(flat, [&] { server.process.read_what_is_there(); }));
  fmt::print("descriptors {} -> {}, threads {} -> {}, resident {} -> {} KiB\n", before.descriptors,
             after.descriptors, before.threads, after.threads, before.resident_kb,
             after.resident_kb);

  // Clients that do not read delay nothing, not even the end.
  std::vector<Socket> silent;
  for (std::size_t i = 0; i < kNeverRead; ++i) {
    nlohmann::json stream = asks_[i].json;
    stream["stream"] = true;
    stream["max_tokens"] = 200;
    silent.emplace_back(server.port).send(completions(stream));
  }
  EXPECT_NE(silent.back().read_some(), "");
  expect_end(server, SIGTERM);
}

}  // namespace
}  // namespace tandem
