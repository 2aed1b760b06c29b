// A running server over a FakeService, on its own port.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "base/log/log.h"
#include "engine/server/server.h"
#include "fake_service.h"
#include "tests/base/http/test_call.h"

namespace tandem {

class ServerTest : public ::testing::Test {
 protected:
  void SetUp() override { log::set_level(log::Level::off); }
  void TearDown() override { server.reset(); }

  void start(bool attached = true) {
    options.port = 0;
    auto made = Server::create(options);
    ASSERT_TRUE(made.ok()) << made.status().message();
    server = std::move(*made);
    const Status status = server->start();
    ASSERT_TRUE(status.ok()) << status.message();
    port = server->port();
    if (attached) attach();
  }
  void attach() {
    ServedModel model{"base", "/models/base", 64, 8, &service, &text, tool_format};
    model.refused_adapters = refused_adapters;
    model.hidden_size = hidden_size;
    model.labels = labels;
    server->attach(std::move(model));
  }

  ServerOptions options;
  FakeService service;
  ByteCodec text;
  ToolFormat tool_format = ToolFormat::none;
  std::vector<RefusedAdapter> refused_adapters;
  std::int64_t hidden_size = 0;
  std::vector<std::string> labels;
  std::unique_ptr<Server> server;
  int port = 0;
};

}  // namespace tandem
