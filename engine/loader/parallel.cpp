#include "engine/loader/parallel.h"

#include <algorithm>
#include <atomic>
#include <system_error>
#include <thread>
#include <vector>

#include "engine/base/check.h"

namespace tandem {
namespace {

// Helpers alive in the whole process. Relaxed: it only bounds a number, it publishes no data.
std::atomic<int> g_helpers{0};

bool take_helper() {
  static const int limit = std::max(1, static_cast<int>(std::thread::hardware_concurrency())) - 1;
  if (g_helpers.fetch_add(1, std::memory_order_relaxed) < limit) return true;
  g_helpers.fetch_sub(1, std::memory_order_relaxed);
  return false;
}

}  // namespace

void parallel_chunks(std::size_t count, std::size_t chunk,
                     const std::function<void(std::size_t, std::size_t)>& body) {
  TANDEM_CHECK(chunk > 0);
  const std::size_t num_chunks = count / chunk + (count % chunk != 0 ? 1 : 0);
  // Relaxed: each index is taken once whatever the order; joining publishes what the bodies wrote.
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (;;) {
      const std::size_t i = next.fetch_add(1, std::memory_order_relaxed);
      if (i >= num_chunks) return;
      body(i * chunk, i * chunk + std::min(chunk, count - i * chunk));
    }
  };
  std::vector<std::thread> helpers;
  while (helpers.size() + 1 < num_chunks && take_helper()) {
    try {
      helpers.emplace_back(work);
    } catch (const std::system_error&) {  // no thread to be had: those that are there do it all
      g_helpers.fetch_sub(1, std::memory_order_relaxed);
      break;
    }
  }
  work();
  for (std::thread& helper : helpers) helper.join();
  g_helpers.fetch_sub(static_cast<int>(helpers.size()), std::memory_order_relaxed);
}

}  // namespace tandem
