#include "tools/pick/pick.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "tools/pick/pick_settings.h"

namespace tandem {
namespace {

constexpr const char* kProgram = "tandem-pick";

Status become(const std::vector<std::string>& args) {
  std::error_code failure;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", failure);
  if (failure) return errno_status("/proc/self/exe", failure.value());
  const std::string program = (self.parent_path() / kProgram).string();
  if (!std::filesystem::exists(program, failure)) {
    return error(StatusCode::unavailable,
                 "this build has no picker: there is no {}. It needs gRPC: run tools/install-deps "
                 "--picker (libgrpc++-dev, libprotobuf-dev, protobuf-compiler, "
                 "protobuf-compiler-grpc), then build again",
                 program);
  }
  std::vector<char*> words{const_cast<char*>(program.c_str())};
  for (const std::string& arg : args) words.push_back(const_cast<char*>(arg.c_str()));
  words.push_back(nullptr);
  execv(program.c_str(), words.data());
  return errno_status(program, errno);
}

}  // namespace

CommandInfo pick_command() {
  return {"pick", "--engine URL [--engine URL ...] | --registry URL [flags]",
          "Tells Envoy which engine a request goes to: an endpoint picker by the protocol of the\n"
          "Gateway API Inference Extension, over Envoy's external processing (gRPC), with the\n"
          "policies of tandem route. SIGTERM or Ctrl-C ends it at once.",
          "  tandem pick --engine http://127.0.0.1:8001 --engine http://127.0.0.1:8002\n"
          "  tandem pick --registry etcd://10.0.0.1:2379,10.0.0.2:2379"};
}

int run_pick(const std::vector<std::string>& args) {
  PickSettings settings;
  SettingsTable table;
  add_pick_settings(table, settings);
  if (const auto status = read_settings(pick_command(), table, args)) return *status;
  if (settings.engines.none()) {
    fmt::print(stderr,
               "tandem pick: which engines? Give --engine http://HOST:PORT for each, or "
               "--registry URL\n");
    return kExitUsage;
  }
  return report_failure(pick_command(), become(args));
}

}  // namespace tandem
