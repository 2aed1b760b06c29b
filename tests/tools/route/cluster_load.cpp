#include "tests/tools/route/cluster_load.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <sstream>
#include <string_view>

namespace tandem {
namespace {

using std::chrono::steady_clock;

constexpr int kPatienceMs = 90'000;  // for one piece of a stream
// Each router twice: one may be dead at any time, and is another one a moment later.
constexpr std::size_t kRounds = 2;

class LoadSocket {
 public:
  explicit LoadSocket(int port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  ~LoadSocket() { close(fd_); }
  LoadSocket(const LoadSocket&) = delete;
  LoadSocket& operator=(const LoadSocket&) = delete;

  bool send_all(const std::string& text) const {
    return connected_ &&
           send(fd_, text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
  }
  // False: the end.
  bool read_some(std::string& into) const {
    pollfd ready = {fd_, POLLIN, 0};
    if (poll(&ready, 1, kPatienceMs) != 1) return false;
    std::array<char, 16384> bytes{};
    const ssize_t count = recv(fd_, bytes.data(), bytes.size(), 0);
    if (count > 0) into.append(bytes.data(), static_cast<std::size_t>(count));
    return count > 0;
  }

 private:
  const int fd_;
  bool connected_ = false;
};

// The chunks joined; `last` is set when the last one is there.
std::string without_chunks(std::string_view body, bool& last) {
  std::string joined;
  last = false;
  while (true) {
    const std::size_t end = body.find("\r\n");
    if (end == std::string_view::npos) return joined;
    const std::size_t size = std::strtoul(std::string(body.substr(0, end)).c_str(), nullptr, 16);
    body.remove_prefix(end + 2);
    last = size == 0;
    if (last || body.size() < size + 2) return joined;
    joined += body.substr(0, size);
    body.remove_prefix(size + 2);
  }
}

}  // namespace

StreamAnswer ask_stream(int port, const StreamCall& call,
                        const std::function<void(steady_clock::duration)>& heard) {
  StreamAnswer answer;
  const LoadSocket socket(port);
  const std::string body = call.body.dump();
  if (!socket.send_all(fmt::format("POST {} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                                   "Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{}",
                                   call.path, body.size(), body))) {
    return answer;
  }
  std::string received;
  for (auto last = steady_clock::now(); socket.read_some(received);) {
    const auto now = steady_clock::now();
    if (heard) heard(now - last);
    last = now;
  }
  const std::size_t end = received.find("\r\n\r\n");
  if (end == std::string::npos) return answer;
  answer.head = received.substr(0, end);
  answer.status = std::atoi(answer.head.c_str() + std::string_view("HTTP/1.1 ").size());
  const std::string_view rest = std::string_view(received).substr(end + 4);
  if (answer.head.find("chunked") == std::string::npos) {  // an error
    answer.whole = true;
    answer.told.wrong = rest;
    return answer;
  }
  const std::string events = without_chunks(rest, answer.whole);
  constexpr std::string_view kData = "data: ";
  for (std::size_t at = 0; at < events.size();) {
    const std::size_t stop = std::min(events.find("\n\n", at), events.size());
    const std::string_view event = std::string_view(events).substr(at, stop - at);
    if (event.starts_with(kData)) answer.told.take(std::string(event.substr(kData.size())));
    at = stop + 2;
  }
  return answer;
}

void ClusterLoad::begin(int clients, unsigned seed) {
  for (int i = 0; i < clients; ++i) {
    crowd_.add([this](std::mt19937& random) { ask(random); }, seed + static_cast<unsigned>(i));
  }
}

double ClusterLoad::take_longest_silence_s() {
  return static_cast<double>(silence_us_.exchange(0)) / 1e6;
}

void ClusterLoad::ask(std::mt19937& random) {
  const std::size_t which = random() % calls_.size();
  const std::size_t first = random() % routers_.size();
  const auto heard = [this](steady_clock::duration silence) {
    const auto us = std::chrono::duration_cast<std::chrono::microseconds>(silence).count();
    std::int64_t longest = silence_us_;
    while (us > longest && !silence_us_.compare_exchange_weak(longest, us)) {
    }
  };
  for (std::size_t i = 0; i < kRounds * routers_.size(); ++i) {
    const int port = routers_[(first + i) % routers_.size()];
    const StreamAnswer answer = ask_stream(port, calls_[which], heard);
    if (!answer.whole) {  // the router died: what it told is worth nothing
      ++asked_again_;
      continue;
    }
    if (answer.status == 200 && answer.told == right_[which]) {
      ++served_;
      return;
    }
    std::ostringstream told;
    told << calls_[which].body.dump() << "\n"
         << answer.head << answer.told << "\ninstead of" << right_[which];
    return crowd_.fail(told.str());
  }
  crowd_.fail("no router answers");
}

}  // namespace tandem
