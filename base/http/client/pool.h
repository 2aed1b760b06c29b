// Connections that nobody uses at the moment, by server.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/http/client/exchange.h"

namespace tandem {

struct HttpClient::Pool {
  std::size_t max_idle = 0;  // of each server
  Duration keep_alive{};
  std::map<std::string, std::vector<std::unique_ptr<Wire>>> idle;  // oldest first
  TimePoint looked{};  // when those of all servers were last looked at
  // One turn's bytes, of whichever connection: no memory of its own for each of thousands.
  std::array<char, 64U << 10> block;
  std::string body;
  TlsContext tls;

  std::unique_ptr<Wire> take(const std::string& server, TimePoint now);
  void drop_old(std::vector<std::unique_ptr<Wire>>& wires, TimePoint now) const;
  void keep(const std::string& server, std::unique_ptr<Wire> wire, TimePoint now);
};

}  // namespace tandem
