// A real etcd on free ports of this machine, with its own folder.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/cluster/registry/http_post.h"
#include "tests/support/temp_dir.h"

namespace tandem::testing {

class EtcdCluster {
 public:
  // Returns null if no etcd is installed. Aborts if it does not answer within a minute.
  static std::unique_ptr<EtcdCluster> start(std::size_t members);
  ~EtcdCluster();
  EtcdCluster(const EtcdCluster&) = delete;
  EtcdCluster& operator=(const EtcdCluster&) = delete;

  std::string url() const;  // for a registry in this etcd
  const HttpEndpoint& endpoint(std::size_t i) const { return members_[i].endpoint; }
  std::size_t leader() const;  // any member if there is no leader
  bool answers(std::size_t i) const;

  void kill_member(std::size_t i);   // with SIGKILL
  void start_member(std::size_t i);  // restarts a killed member with its data

 private:
  struct Member {
    HttpEndpoint endpoint;
    std::string peer;
    pid_t pid = -1;
  };

  EtcdCluster() = default;

  TempDir dir_;
  std::string program_;
  std::string peers_;  // all members, for each one's command line
  std::vector<Member> members_;
};

// An etcd of one member, for most tests.
class EtcdProcess {
 public:
  static std::unique_ptr<EtcdProcess> start() {
    auto cluster = EtcdCluster::start(1);
    if (cluster == nullptr) return nullptr;
    return std::make_unique<EtcdProcess>(std::move(cluster));
  }
  explicit EtcdProcess(std::unique_ptr<EtcdCluster> cluster) : cluster_(std::move(cluster)) {}

  const HttpEndpoint& endpoint() const { return cluster_->endpoint(0); }

 private:
  std::unique_ptr<EtcdCluster> cluster_;
};

// A port that listens and never answers.
class SilentServer {
 public:
  SilentServer();
  ~SilentServer();
  SilentServer(const SilentServer&) = delete;
  SilentServer& operator=(const SilentServer&) = delete;
  const HttpEndpoint& endpoint() const { return endpoint_; }
  int descriptor() const { return fd_; }

 private:
  int fd_ = -1;
  HttpEndpoint endpoint_;
};

// Returns an address of this machine on which nobody listened a moment ago.
HttpEndpoint free_endpoint();

}  // namespace tandem::testing
