// An adapter that is used while its bytes are still being read from its folder: which of its layers
// are present, and at the end whether the contents were as expected.
//
// Each layer has a word in the arena beside the bytes, which holds `generation` once the layer is
// present. The load stream waits for it before it copies the layer (Stream::wait_flag), and workers
// before they compute from it (GroupJob::present). No wait is endless: when the reading ends, with
// or without success, all words are set. So results computed with an adapter must not reach a
// client or a cache before status() is known to be ok.
//
// Thread-safe. The words are in the same memory as the bytes, and live as long.
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
  // The bytes of memory for the bytes of an adapter and its words.
  static std::size_t bytes_with_words(std::size_t num_bytes, std::size_t num_layers);

  // Begins a reading. `bytes` has room for bytes_with_words(); the words are set to zero.
  // generation != 0, another for each reading.
  AdapterReading(const Adapter& adapter, std::byte* bytes, std::uint32_t generation);

  // A reading is shown to others when its rest is expected within this time: a load that waited for
  // longer would delay all loads behind it.
  static constexpr std::chrono::milliseconds kNear{20};
  // The time after which a reading has failed.
  static constexpr std::chrono::milliseconds kLongest{5000};
  // Starts the time limit. Call it before others see the reading.
  void show(std::chrono::milliseconds longest = kLongest);

  // Called by the reading threads.
  void layer_there(std::size_t layer);
  // Ends the reading. If `status` is not ok, the bytes are invalid. Only the first call counts.
  void end(Status status);

  std::uint32_t generation() const { return generation_; }
  const std::uint32_t* word(std::size_t layer) const { return &words_[layer]; }
  bool is_there(std::size_t layer) const;
  // As in ReadingPace; nothing is left when the reading has ended.
  std::vector<double> seconds_left() const;
  std::chrono::duration<double> rest() const;

  enum class State : std::uint8_t { reading, good, bad };
  // acquire: pairs with end(), which sets the status first
  State state() const { return state_.load(std::memory_order_acquire); }
  Status status() const;  // ok until it ends
  // Waits until the reading has ended, and ends it as failed at its time limit. If there is no
  // memory for the status, throws after the end.
  Status wait();
  // Ends the reading as failed if it is over its time limit, as its disk may be gone.
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

// Says whether a copy of an adapter's bytes has the right contents, which the reading of its folder
// may still have to prove. May outlive the copy. Thread-safe.
class AdapterProof {
 public:
  AdapterProof() = default;  // for a copy that is proven
  explicit AdapterProof(std::shared_ptr<AdapterReading> reading) : reading_(std::move(reading)) {}

  // Ok unless the reading has failed. After a failure the copy, and results computed with it, must
  // not be used.
  Status status() const { return reading_ == nullptr ? Status() : reading_->status(); }
  // The final status: waits for the end of a reading that goes on.
  Status wait() const { return reading_ == nullptr ? Status() : reading_->wait(); }
  // True if the copy is proven to be right, so that results may be cached.
  bool is_given() const {
    return reading_ == nullptr || reading_->state() == AdapterReading::State::good;
  }

 private:
  std::shared_ptr<AdapterReading> reading_;  // null: the copy was complete
};

}  // namespace tandem
