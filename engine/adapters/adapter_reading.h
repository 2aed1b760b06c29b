// An adapter whose bytes are being read from its folder while others use them already: which of its
// layers are there, and in the end whether they were what they should have been.
//
// Each layer has a word in the arena beside the bytes. It holds `generation` when the layer is
// there: the load stream waits for it before it copies the layer (Stream::wait_flag), workers
// before they compute from it (GroupJob::present). Nobody waits without end: when the reading ends,
// well or not, all words are set. So what was computed from an adapter is of no account before
// status() is ok, and nothing of it may reach a client or a cache before.
//
// Thread-safe. The words live as long as the bytes do, in which they lie.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "base/status.h"
#include "engine/adapters/reading_pace.h"
#include "engine/loader/adapter.h"

namespace tandem {

class AdapterReading {
 public:
  // How much memory the bytes of an adapter and then its words take.
  static std::size_t bytes_with_words(std::size_t num_bytes, std::size_t num_layers);

  // It begins now. `bytes` is that much; the words are zeroed. generation != 0, another for each
  // reading.
  AdapterReading(const Adapter& adapter, std::byte* bytes, std::uint32_t generation);

  // Readings are shown to others when the rest is so near: a load that waited for longer would hold
  // up all loads behind it.
  static constexpr std::chrono::milliseconds kNear{20};
  // This long, and it is lost.
  static constexpr std::chrono::milliseconds kLongest{5000};
  // Before others see it: from now on it may last so long.
  void show(std::chrono::milliseconds longest = kLongest);

  // By the reading threads.
  void layer_there(std::size_t layer);
  // Ends it: not ok, what was read is nothing. The first call counts.
  void end(Status status);

  std::uint32_t generation() const { return generation_; }
  const std::uint32_t* word(std::size_t layer) const { return &words_[layer]; }
  bool is_there(std::size_t layer) const;
  // As those of ReadingPace; nothing is left when the reading has ended.
  std::vector<double> seconds_left() const;
  std::chrono::duration<double> rest() const;

  enum class State : std::uint8_t { reading, good, bad };
  // acquire: pairs with end(), whose status is then there
  State state() const { return state_.load(std::memory_order_acquire); }
  Status status() const;  // ok while it goes on
  // Waits until it has ended; ends it itself, badly, when it has gone on for too long. Throws where
  // there is no memory for the status, when it has ended.
  Status wait();
  // Ends it badly when it has gone on for too long: its disk may be gone.
  void end_if_overdue() noexcept;

 private:
  void set_word(std::size_t layer);
  Status too_late() const noexcept;

  const std::span<std::uint32_t> words_;
  const std::uint32_t generation_;
  std::chrono::milliseconds longest_{};  // written by show(), like the deadline
  std::chrono::steady_clock::time_point deadline_;
  std::atomic<State> state_{State::reading};
  mutable std::mutex mutex_;  // guards pace_, status_ and the change of state_
  ReadingPace pace_;
  std::condition_variable ended_;
  Status status_;
};

// Whether a copy that was made of an adapter's bytes is the adapter, which its folder may still
// have to prove. May outlive the copy. Thread-safe.
class AdapterProof {
 public:
  AdapterProof() = default;  // nothing is in doubt
  explicit AdapterProof(std::shared_ptr<AdapterReading> reading) : reading_(std::move(reading)) {}

  // Ok as far as is known. While it is not ok nobody may use the copy, or what was computed with
  // it.
  Status status() const { return reading_ == nullptr ? Status() : reading_->status(); }
  // The same, when it is known for good: waits for the end of a reading that still goes on.
  Status wait() const { return reading_ == nullptr ? Status() : reading_->wait(); }
  // Known to be ok: results may be kept for others.
  bool is_given() const {
    return reading_ == nullptr || reading_->state() == AdapterReading::State::good;
  }

 private:
  std::shared_ptr<AdapterReading> reading_;  // null: it was all there
};

}  // namespace tandem
