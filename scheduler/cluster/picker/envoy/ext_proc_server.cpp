#include "scheduler/cluster/picker/envoy/ext_proc_server.h"

#include <envoy/service/ext_proc/v3/external_processor.grpc.pb.h>
#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "base/http/client/http_address.h"
#include "scheduler/cluster/picker/envoy/ext_proc_stream.h"

namespace tandem {
namespace {

namespace ext_proc_v3 = envoy::service::ext_proc::v3;

constexpr std::size_t kBesidesBody = 1U << 20;             // headers, attributes, metadata
constexpr std::size_t kMostMemory = std::size_t{1} << 30;  // limit of gRPC's memory for all streams
constexpr int kAskAfterMs = 30'000;                        // after this silence
constexpr int kAnswerWithinMs = 10'000;
constexpr auto kShutdown = std::chrono::milliseconds(200);
constexpr const char* kOfReadiness[] = {"", "readiness",
                                        "envoy.service.ext_proc.v3.ExternalProcessor"};

// gRPC reports that it could not listen, but not why, so this checks first.
Status can_listen(const std::string& host, int port) {
  addrinfo wanted{};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const std::string service = std::to_string(port);
  if (const int failure = getaddrinfo(host.c_str(), service.c_str(), &wanted, &found);
      failure != 0) {
    return invalid("host: cannot listen on '{}': {}", host, gai_strerror(failure));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
  const int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return errno_status("socket", errno);
  const int on = 1;
  (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const bool free = bind(fd, found->ai_addr, found->ai_addrlen) == 0 && listen(fd, 1) == 0;
  const int why = errno;
  close(fd);
  if (free) return {};
  return errno_status(fmt::format("cannot listen on {}:{}", host, port), why);
}

}  // namespace

struct ExtProcServer::Impl final : public ext_proc_v3::ExternalProcessor::CallbackService {
  Impl(ExtProcOptions given, PickDesk& who) : options(std::move(given)), desk(who) {}

  grpc::ServerBidiReactor<ext_proc_v3::ProcessingRequest, ext_proc_v3::ProcessingResponse>* Process(
      grpc::CallbackServerContext*) override {
    return ExtProcStream::open(desk, options.max_body_bytes, open);
  }

  void tell_health() {
    if (server == nullptr) return;
    auto* const health = server->GetHealthCheckService();
    for (const char* name : kOfReadiness) health->SetServingStatus(name, ready);
    health->SetServingStatus("liveness", true);
  }

  const ExtProcOptions options;
  PickDesk& desk;
  OpenStreams open;
  int bound = 0;
  std::mutex mutex;
  bool ready = false;                    // guarded by mutex
  std::unique_ptr<grpc::Server> server;  // guarded by mutex
};

ExtProcServer::ExtProcServer(ExtProcOptions options, PickDesk& desk)
    : impl_(std::make_unique<Impl>(std::move(options), desk)) {}

ExtProcServer::~ExtProcServer() {
  stop();
}

Status ExtProcServer::start() {
  const ExtProcOptions& options = impl_->options;
  TANDEM_TRY(can_listen(options.host, options.port));
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  const std::string address = HttpAddress{options.host, options.port}.authority();
  builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &impl_->bound);
  // A second picker on this port is a mistake.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.SetMaxReceiveMessageSize(static_cast<int>(options.max_body_bytes + kBesidesBody));
  // Detects an Envoy whose machine has gone and which therefore closes nothing.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kAskAfterMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kAnswerWithinMs);
  grpc::ResourceQuota quota("tandem-pick");
  quota.Resize(kMostMemory);
  builder.SetResourceQuota(quota);
  builder.RegisterService(impl_.get());
  const std::lock_guard lock(impl_->mutex);
  impl_->server = builder.BuildAndStart();
  if (impl_->server == nullptr || impl_->bound == 0) {
    impl_->server.reset();
    return error(StatusCode::unavailable, "cannot listen on {}", address);
  }
  impl_->tell_health();
  return {};
}

int ExtProcServer::port() const {
  return impl_->bound;
}

void ExtProcServer::set_ready(bool ready) {
  const std::lock_guard lock(impl_->mutex);
  impl_->ready = ready;
  impl_->tell_health();
}

void ExtProcServer::stop() {
  std::unique_ptr<grpc::Server> server;
  {
    const std::lock_guard lock(impl_->mutex);
    server = std::move(impl_->server);
  }
  if (server == nullptr) return;
  server->GetHealthCheckService()->SetServingStatus(false);
  impl_->open.close_all();
  server->Shutdown(std::chrono::system_clock::now() + kShutdown);
  server->Wait();
}

}  // namespace tandem
