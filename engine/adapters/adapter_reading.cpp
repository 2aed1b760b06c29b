#include "engine/adapters/adapter_reading.h"

#include <algorithm>
#include <exception>
#include <span>
#include <utility>

#include "base/check.h"

namespace tandem {
namespace {

constexpr std::size_t kAlignment = 64;

std::size_t words_begin(std::size_t num_bytes) {
  return (num_bytes + kAlignment - 1) / kAlignment * kAlignment;
}

bool is_adapted(std::span<const AdapterMatrix> layer) {
  return std::ranges::any_of(layer, [](const AdapterMatrix& matrix) { return matrix.rank > 0; });
}

// [layers]: layers are contiguous, and each begins with its first A.
std::vector<std::uint64_t> bytes_of_layers(const Adapter& adapter) {
  std::vector<std::uint64_t> bytes(adapter.layers.size(), 0);
  std::uint64_t end = adapter.num_bytes;
  for (std::size_t l = adapter.layers.size(); l-- > 0;) {
    if (!is_adapted(adapter.layers[l])) continue;
    std::uint64_t begin = end;
    for (const AdapterMatrix& matrix : adapter.layers[l]) {
      if (matrix.rank > 0) begin = std::min(begin, matrix.a_offset);
    }
    bytes[l] = std::max<std::uint64_t>(end - begin, 1);
    end = begin;
  }
  return bytes;
}

}  // namespace

std::size_t AdapterReading::bytes_with_words(std::size_t num_bytes, std::size_t num_layers) {
  return words_begin(num_bytes) + num_layers * sizeof(std::uint32_t);
}

AdapterReading::AdapterReading(const Adapter& adapter, std::byte* bytes, std::uint32_t generation)
    : words_(reinterpret_cast<std::uint32_t*>(bytes + words_begin(adapter.num_bytes)),
             adapter.layers.size()),
      generation_(generation),
      pace_(bytes_of_layers(adapter), std::chrono::steady_clock::now()) {
  TANDEM_CHECK(generation != 0);
  std::ranges::fill(words_, 0U);
  for (std::size_t layer = 0; layer < adapter.layers.size(); ++layer) {
    if (!is_adapted(adapter.layers[layer])) set_word(layer);
  }
}

void AdapterReading::show(std::chrono::milliseconds longest) {
  longest_ = longest;
  deadline_ = std::chrono::steady_clock::now() + longest;
}

void AdapterReading::layer_there(std::size_t layer) {
  set_word(layer);
  const std::lock_guard lock(mutex_);
  pace_.layer_there(layer, std::chrono::steady_clock::now());
}

std::vector<double> AdapterReading::seconds_left() const {
  const std::lock_guard lock(mutex_);
  if (state() != State::reading) return {};
  return pace_.seconds_left(std::chrono::steady_clock::now());
}

std::chrono::duration<double> AdapterReading::rest() const {
  const std::lock_guard lock(mutex_);
  if (state() != State::reading) return {};
  return std::chrono::duration<double>(pace_.rest(std::chrono::steady_clock::now()));
}

void AdapterReading::set_word(std::size_t layer) {
  // release: pairs with the acquire of the load stream's wait_flag, of workers, and of is_there()
  std::atomic_ref<std::uint32_t>(words_[layer]).store(generation_, std::memory_order_release);
}

bool AdapterReading::is_there(std::size_t layer) const {
  return std::atomic_ref<std::uint32_t>(words_[layer]).load(std::memory_order_acquire) ==
         generation_;
}

// Sets the state before the words: code that computes from a layer whose word was only set because
// a reading failed will see the failure.
void AdapterReading::end(Status status) {
  {
    const std::lock_guard lock(mutex_);
    if (state_.load(std::memory_order_relaxed) != State::reading) return;
    const State state = status.ok() ? State::good : State::bad;
    status_ = std::move(status);
    state_.store(state, std::memory_order_release);  // pairs with state()
    for (std::size_t layer = 0; layer < words_.size(); ++layer) set_word(layer);
  }
  ended_.notify_all();
}

Status AdapterReading::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

Status AdapterReading::wait() {
  bool ended = false;
  {
    std::unique_lock lock(mutex_);
    ended = ended_.wait_until(lock, deadline_, [this] { return state() != State::reading; });
  }
  if (!ended) end(too_late());
  return status();
}

void AdapterReading::end_if_overdue() noexcept {
  if (state() != State::reading || std::chrono::steady_clock::now() <= deadline_) return;
  end(too_late());
}

Status AdapterReading::too_late() const noexcept {
  try {
    return error(StatusCode::unavailable, "the adapter's folder could not be read within {} s",
                 std::chrono::duration<double>(longest_).count());
  } catch (const std::exception&) {  // this text is short and needs no memory
    return {StatusCode::unavailable, "out of memory"};
  }
}

}  // namespace tandem
