#include "tests/scheduler/cluster/registry/etcd_process.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>
#include <thread>
#include <vector>

#include "base/check.h"

extern char** environ;  // NOLINT: no POSIX header declares it

namespace tandem::testing {
namespace {

// Opens a socket on a port that the kernel chooses; stores the port in `port`.
int listening_socket(std::string& port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  TANDEM_CHECK(
      fd >= 0 && bind(fd, any, size) == 0 && listen(fd, 8) == 0 && getsockname(fd, any, &size) == 0,
      "no free port");
  port = std::to_string(ntohs(address.sin_port));
  return fd;
}

std::string find_etcd() {
  std::string_view path = std::getenv("PATH") == nullptr ? "" : std::getenv("PATH");
  while (!path.empty()) {
    const std::size_t colon = std::min(path.find(':'), path.size());
    std::string file = std::string(path.substr(0, colon)) + "/etcd";
    if (access(file.c_str(), X_OK) == 0) return file;
    path.remove_prefix(std::min(colon + 1, path.size()));
  }
  return {};
}

}  // namespace

HttpEndpoint free_endpoint() {
  HttpEndpoint endpoint{"127.0.0.1", ""};
  close(listening_socket(endpoint.port));
  return endpoint;
}

std::unique_ptr<EtcdCluster> EtcdCluster::start(std::size_t members) {
  const std::string program = find_etcd();
  if (program.empty()) return nullptr;
  std::unique_ptr<EtcdCluster> etcd(new EtcdCluster);
  etcd->program_ = program;
  for (std::size_t i = 0; i < members; ++i) {
    Member& member = etcd->members_.emplace_back();
    member.endpoint = free_endpoint();
    member.peer = "http://" + free_endpoint().text();
    etcd->peers_ += fmt::format("{}m{}={}", i == 0 ? "" : ",", i, member.peer);
  }
  for (std::size_t i = 0; i < members; ++i) etcd->start_member(i);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!etcd->answers(0)) {
    TANDEM_CHECK(std::chrono::steady_clock::now() < deadline, "etcd does not answer");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return etcd;
}

EtcdCluster::~EtcdCluster() {
  for (std::size_t i = 0; i < members_.size(); ++i) kill_member(i);
}

// A single member can use leases of a second, which longer elections would forbid. Several members
// share a busy machine with the tested code, so their elections are longer and rarer.
void EtcdCluster::start_member(std::size_t i) {
  Member& member = members_[i];
  const std::string name = fmt::format("m{}", i);
  const std::string url = "http://" + member.endpoint.text();
  const bool alone = members_.size() == 1;
  std::vector<std::string> words = {program_,
                                    "--name",
                                    name,
                                    "--data-dir",
                                    (dir_.path() / name).string(),
                                    "--listen-client-urls",
                                    url,
                                    "--advertise-client-urls",
                                    url,
                                    "--listen-peer-urls",
                                    member.peer,
                                    "--initial-advertise-peer-urls",
                                    member.peer,
                                    "--initial-cluster",
                                    peers_,
                                    "--heartbeat-interval",
                                    alone ? "20" : "100",
                                    "--election-timeout",
                                    alone ? "200" : "1000"};
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  const std::string log = (dir_.path() / (name + ".log")).string();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log.c_str(),
                                   O_WRONLY | O_CREAT | O_APPEND, 0600);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  const int failure =
      posix_spawn(&member.pid, program_.c_str(), &actions, nullptr, pointers.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  TANDEM_CHECK(failure == 0, "posix_spawn {}: {}", program_, failure);
}

void EtcdCluster::kill_member(std::size_t i) {
  if (members_[i].pid <= 0) return;
  kill(members_[i].pid, SIGKILL);
  waitpid(members_[i].pid, nullptr, 0);
  members_[i].pid = -1;
}

bool EtcdCluster::answers(std::size_t i) const {
  const auto answer = http_post(members_[i].endpoint, "/v3/kv/range", R"({"key": "AA=="})",
                                std::chrono::steady_clock::now() + std::chrono::seconds(5));
  return answer && answer->status == 200;
}

std::size_t EtcdCluster::leader() const {
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const auto answer = http_post(members_[i].endpoint, "/v3/maintenance/status", "{}",
                                  std::chrono::steady_clock::now() + std::chrono::seconds(5));
    if (!answer) continue;
    const auto said = nlohmann::json::parse(answer->body, nullptr, false);
    if (!said.is_object() || !said.contains("leader") || !said.contains("header")) continue;
    if (said["leader"] == said["header"]["member_id"]) return i;
  }
  return 0;
}

std::string EtcdCluster::url() const {
  std::string url = "etcd://";
  for (const Member& member : members_) {
    if (!url.ends_with('/')) url += ',';
    url += member.endpoint.text();
  }
  return url;
}

SilentServer::SilentServer() {
  endpoint_.host = "127.0.0.1";
  fd_ = listening_socket(endpoint_.port);
}

SilentServer::~SilentServer() {
  close(fd_);
}

}  // namespace tandem::testing
