// Idle connections that are kept for reuse, by server.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/http/client/exchange.h"

namespace tandem {

struct HttpClient::Pool {
  std::size_t max_idle = 0;  // per server
  Duration keep_alive{};
  std::map<std::string, std::vector<std::unique_ptr<Wire>>> idle;  // oldest first
  TimePoint looked{};  // when all servers' connections were last checked
  // The bytes of one step, shared by all connections: thousands need no memory of their own for it.
  std::array<char, 64U << 10> block;
  std::string body;
  TlsContext tls;

  std::unique_ptr<Wire> take(const std::string& server, TimePoint now);
  void drop_old(std::vector<std::unique_ptr<Wire>>& wires, TimePoint now) const;
  void keep(const std::string& server, std::unique_ptr<Wire> wire, TimePoint now);
};

}  // namespace tandem
