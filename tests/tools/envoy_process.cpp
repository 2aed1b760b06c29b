#include "tests/tools/envoy_process.h"

#include <charconv>
#include <fstream>
#include <sstream>
#include <string_view>

#include "tests/base/http/test_client.h"

namespace tandem {
namespace {

constexpr int kClients = 8080;  // the clients' port in both files
constexpr int kOperators = 9901;

std::string file_text(const std::filesystem::path& file) {
  std::stringstream read;
  read << std::ifstream(file).rdbuf();
  return read.str();
}

// Returns the number after `before` in a complete text; 0: none.
int number_behind(const std::string& text, std::string_view before) {
  const std::size_t at = text.find(before);
  int number = 0;
  if (at != std::string::npos) {
    std::from_chars(text.data() + at + before.size(), text.data() + text.size(), number);
  }
  return number;
}

}  // namespace

std::string EnvoyProcess::missing() {
  if (std::filesystem::exists(TANDEM_ENVOY)) return {};
  return "there is no " + std::filesystem::absolute(TANDEM_ENVOY).string() +
         "; tools/install-headers envoy brings it";
}

EnvoyProcess::EnvoyProcess(const std::filesystem::path& config,
                           std::vector<std::pair<int, int>> ports) {
  ports.insert(ports.end(), {{kClients, 0}, {kOperators, 0}});
  std::string text = file_text(config);
  for (const auto& [from, to] : ports) {
    const std::string word = "port_value: " + std::to_string(from);
    const std::size_t at = text.find(word);
    if (at == std::string::npos) return;
    text.replace(at, word.size(), "port_value: " + std::to_string(to));
  }
  const auto file = folder_.write("envoy.yaml", text);
  const auto admin_file = folder_.path() / "admin";
  ProcessOptions options;
  options.program = TANDEM_ENVOY;
  process_ = std::make_unique<Process>(
      std::vector<std::string>{"-c", file.string(), "--use-dynamic-base-id", "--concurrency", "1",
                               "--admin-address-path", admin_file.string()},
      options);
  // The clients' port opens after the clusters' first health checks.
  if (!process_->wait_for_error("all dependencies initialized")) return;
  const int admin = number_behind(file_text(admin_file), "127.0.0.1:");
  port_ = number_behind(get(admin, "/listeners").body, "127.0.0.1:");
}

std::string EnvoyProcess::log() {
  if (process_ == nullptr) return "a port is not in the file";
  process_->read_what_is_there();
  return process_->error();
}

}  // namespace tandem
