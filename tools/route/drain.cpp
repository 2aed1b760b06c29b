// tandem drain: empties an engine; its streams continue on other engines.
#include <fmt/format.h>
#include <httplib.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <string_view>
#include <thread>

#include "base/http/client/http_address.h"
#include "base/settings/settings.h"
#include "scheduler/cluster/report/engine_report.h"
#include "tools/cli/flags/flags.h"
#include "tools/route/route.h"

namespace tandem {
namespace {

const CommandInfo kDrainInfo{
    "drain", "ENGINE_URL [flags]",
    "Takes an engine out of service: it gets no new requests, and its streams that came through a\n"
    "router continue at other engines. The command ends when the engine is idle; then stop it, or\n"
    "take it back by --back.",
    "  tandem drain http://127.0.0.1:8001 && kill ENGINE"};

constexpr int kOk = 200;
constexpr std::chrono::milliseconds kLook{100};
constexpr std::chrono::seconds kPatience{10};  // for a connection, and for each piece of an answer

struct DrainSettings {
  std::string api_key;
  bool hand_over = true;
  bool back = false;
  double timeout_s = 600;
};

const char* why(httplib::Error failure) {
  switch (failure) {
    case httplib::Error::Connection:
      return "nobody listens there";
    case httplib::Error::ConnectionTimeout:
      return "no connection in 10 s";
    case httplib::Error::Canceled:
      return "the answer is too long";
    default:
      return "no whole answer: the connection broke, or nothing came for 10 s";
  }
}

// Sends `request` and returns the body of the answer. Any status but 200 is an error.
Result<std::string> ask(const HttpAddress& engine, const DrainSettings& settings,
                        httplib::Request request) {
  httplib::Client client(engine.host, engine.port);
  client.set_connection_timeout(kPatience);
  client.set_read_timeout(kPatience);
  client.set_write_timeout(kPatience);
  request.headers.emplace("Host", engine.authority());
  if (!settings.api_key.empty()) {
    request.headers.emplace("Authorization", "Bearer " + settings.api_key);
  }
  std::string body;
  request.content_receiver = [&body](const char* data, std::size_t bytes, auto...) {
    body.append(data, bytes);
    return body.size() <= kMaxReportBytes;
  };
  const httplib::Result answer = client.send(request);
  if (!answer) {
    return error(StatusCode::unavailable, "{}: {}", engine.text(), why(answer.error()));
  }
  if (answer->status == kOk) return body;
  return error(StatusCode::unavailable, "{}: {} {} answered {}{}", engine.text(), request.method,
               request.path, answer->status,
               answer->status == 401 ? "; give its key by --api-key or TANDEM_API_KEY" : "");
}

Status drain(const std::string& url, const DrainSettings& settings) {
  TANDEM_ASSIGN(const HttpAddress engine, HttpAddress::parse(url));
  httplib::Request order;
  order.method = "POST";
  order.path = "/v1/drain";
  order.headers.emplace("Content-Type", "application/json");
  order.body = settings.back ? R"({"drain":false})"
                             : fmt::format(R"({{"hand_over":{}}})", settings.hand_over);
  TANDEM_TRY(ask(engine, settings, std::move(order)).status());
  if (settings.back) {
    fmt::print("{} is back in service\n", engine.text());
    return {};
  }
  httplib::Request look;
  look.method = "GET";
  look.path = "/v1/stats";
  const auto begin = std::chrono::steady_clock::now();
  for (std::int64_t told = -1;;) {
    TANDEM_ASSIGN(const std::string answer, ask(engine, settings, look));
    TANDEM_ASSIGN(const EngineReport report, read_report(answer));
    const std::int64_t left = report.view.requests();
    if (left == 0) break;
    if (left != told) {
      fmt::print("{}: {} running, {} waiting\n", engine.text(), report.view.running.requests,
                 report.view.waiting.requests);
      std::fflush(stdout);
    }
    told = left;
    const auto passed = std::chrono::steady_clock::now() - begin;
    if (std::chrono::duration<double>(passed).count() > settings.timeout_s) {
      return error(StatusCode::unavailable,
                   "{}: {} requests still run after {} s; it stays out of service, and "
                   "`tandem drain {} --back` takes it back",
                   engine.text(), left, settings.timeout_s, url);
    }
    std::this_thread::sleep_for(kLook);
  }
  fmt::print("{} is empty and gets nothing new\n", engine.text());
  return {};
}

}  // namespace

int run_drain(const std::vector<std::string>& args) {
  std::vector<std::string> engines;
  DrainSettings settings;
  SettingsTable table;
  table.group("Drain");
  table.add(settings.api_key, "api_key", "the engine's key").meta("KEY").secret();
  table.add(settings.hand_over, "hand_over", "streams go on elsewhere now; else they end here")
      .flag_only();
  table.add(settings.back, "back", "take the engine back into service instead").flag_only();
  table.add(settings.timeout_s, "timeout_s", "wait this long for the engine to be empty")
      .meta("SECONDS")
      .range(0, 86400)
      .flag_only();
  const GivenBeside beside{.words = &engines, .least_words = 1, .word = "engine"};
  if (const auto status = read_settings(kDrainInfo, table, args, beside)) return *status;
  const Status status = drain(engines.front(), settings);
  return status ? kExitOk : report_failure(kDrainInfo, status);
}

}  // namespace tandem
