#include "tools/bench/measure/bench_ipc.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>
#include <thread>
#include <vector>

#include "base/clock.h"

namespace tandem {
namespace {

struct Counts {
  std::atomic<std::uint64_t> bytes{0};
  std::atomic<std::uint64_t> calls{0};
};

// Sends or receives all bytes; false if the other end is closed.
template <typename Call>
bool transfer(Call&& call, int socket, std::vector<std::byte>& buffer, Counts& counts) {
  std::byte* data = buffer.data();
  std::size_t bytes = buffer.size();
  while (bytes > 0) {
    const ssize_t moved = call(socket, data, bytes, MSG_NOSIGNAL);
    if (moved < 0 && errno == EINTR) continue;
    if (moved <= 0) return false;
    counts.bytes.fetch_add(static_cast<std::uint64_t>(moved), std::memory_order_relaxed);
    counts.calls.fetch_add(1, std::memory_order_relaxed);
    data += moved;
    bytes -= static_cast<std::size_t>(moved);
  }
  return true;
}

// Returns once `flag` is at least `value`, with acquire order.
void sleep_until(const std::atomic<std::uint64_t>& flag, std::uint64_t value) {
  for (std::uint64_t seen = flag.load(std::memory_order_acquire); seen < value;
       seen = flag.load(std::memory_order_acquire)) {
    flag.wait(seen, std::memory_order_acquire);
  }
}

// One receiver's channel. An answer repeats the first byte of what was sent.
struct Receiver {
  Receiver(Ipc way, const IpcOptions& options)
      : ipc(way), sent(options.sent_bytes), answer(options.answered_bytes) {}
  Receiver(const Receiver&) = delete;
  Receiver& operator=(const Receiver&) = delete;
  ~Receiver() {
    // release: pairs with the acquire in serve(), which then returns
    doorbell.store(kEnd, std::memory_order_release);
    doorbell.notify_one();
    if (ours >= 0) (void)::close(ours);
    if (thread.joinable()) thread.join();
    if (theirs >= 0) (void)::close(theirs);
  }

  Status start() {
    if (ipc == Ipc::socket) {
      int ends[2];
      if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
        return errno_status("socketpair", errno);
      }
      ours = ends[0];
      theirs = ends[1];
    }
    thread = std::thread([this] { serve(); });
    return {};
  }

  void serve() {
    std::vector<std::byte> own(ipc == Ipc::socket ? sent.size() : 0);
    std::vector<std::byte> reply(ipc == Ipc::socket ? answer.size() : 0);
    for (std::uint64_t round = 1;; ++round) {
      if (ipc == Ipc::socket) {
        if (!transfer(::recv, theirs, own, counts)) return;
        std::ranges::fill(reply, own.front());
        if (!transfer(::send, theirs, reply, counts)) return;
        continue;
      }
      sleep_until(doorbell, round);  // pairs with the release in send(), which wrote `sent`
      if (doorbell.load(std::memory_order_relaxed) == kEnd) return;
      std::ranges::fill(answer, sent.front());
      // release: pairs with the acquire in receive()
      done.store(round, std::memory_order_release);
      done.notify_one();
    }
  }

  // The sender produces its rows anew in each round, in its own memory or in the shared one.
  bool send(std::uint64_t round) {
    std::ranges::fill(sent, static_cast<std::byte>(round));
    if (ipc == Ipc::socket) return transfer(::send, ours, sent, counts);
    doorbell.store(round, std::memory_order_release);  // release: pairs with the acquire in serve()
    doorbell.notify_one();
    return true;
  }
  bool receive(std::uint64_t round) {
    if (ipc == Ipc::socket) {
      if (!transfer(::recv, ours, answer, counts)) return false;
    } else {
      sleep_until(done, round);  // pairs with the release in serve(), which wrote `answer`
    }
    return answer.front() == static_cast<std::byte>(round) &&
           answer.back() == static_cast<std::byte>(round);
  }

  static constexpr std::uint64_t kEnd = ~std::uint64_t{0};
  Ipc ipc;
  std::vector<std::byte> sent, answer;  // of a socket: the sender's own
  std::atomic<std::uint64_t> doorbell{0}, done{0};
  int ours = -1, theirs = -1;
  Counts counts;
  std::thread thread;
};

}  // namespace

Result<IpcResult> measure_ipc(Ipc ipc, const IpcOptions& options) {
  if (options.receivers < 1 || options.sent_bytes == 0 || options.answered_bytes == 0 ||
      options.rounds < 1) {
    return invalid("nothing to send, or nobody to send it to");
  }
  const SteadyClock clock;
  std::deque<Receiver> receivers;
  for (std::int32_t i = 0; i < options.receivers; ++i) {
    TANDEM_TRY(receivers.emplace_back(ipc, options).start());
  }
  std::vector<double> seconds;
  constexpr std::uint64_t kWarmUp = 2;
  const std::uint64_t rounds = static_cast<std::uint64_t>(options.rounds) + kWarmUp;
  for (std::uint64_t round = 1; round <= rounds; ++round) {
    const TimePoint start = clock.now();
    bool ok = true;
    for (Receiver& each : receivers) ok = ok && each.send(round);
    for (Receiver& each : receivers) ok = ok && each.receive(round);
    if (!ok) return error(StatusCode::internal, "a receiver did not answer as it should");
    if (round > kWarmUp) seconds.push_back(seconds_between(start, clock.now()));
  }
  IpcResult result;
  std::ranges::sort(seconds);
  result.median_s = seconds[seconds.size() / 2];
  for (const Receiver& each : receivers) {
    result.copied_bytes += each.counts.bytes / rounds;
    result.calls += each.counts.calls / rounds;
  }
  return result;
}

}  // namespace tandem
