#include "tests/tools/route/cluster_load.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <sstream>

#include "tests/base/http/test_call.h"

namespace tandem {
namespace {

using std::chrono::steady_clock;

// Each router is tried twice, because a dead one may be replaced a moment later.
constexpr std::size_t kRounds = 2;

}  // namespace

StreamAnswer ask_stream(int port, const StreamCall& call,
                        const std::function<void(steady_clock::duration)>& heard) {
  StreamAnswer answer;
  auto last = steady_clock::now();
  const auto hear = [&] {
    const auto now = steady_clock::now();
    if (heard) heard(now - last);
    last = now;
  };
  TestCall asked(port, "POST", call.path, call.body.dump(), "Connection: close\r\n");
  const ClientResponse head = asked.receive_head();
  answer.status = head.status;
  if (head.status == 0) return answer;
  hear();
  for (const auto& [name, value] : head.headers) {
    answer.head += fmt::format("{}: {}\n", name, value);
  }
  if (!head.headers.contains("transfer-encoding")) {
    answer.told.wrong = asked.receive_chunks();  // the text of an error
  } else {
    for (std::string event = asked.next_event(); !event.empty(); event = asked.next_event()) {
      hear();
      answer.told.take(event);
    }
  }
  answer.whole = asked.is_complete();
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
    if (!answer.whole) {  // the router died, so its answer is ignored
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
