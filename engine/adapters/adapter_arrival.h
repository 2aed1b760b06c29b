// Serves an adapter whose folder is still being filled from elsewhere. Its layers can be computed
// from as they arrive, but results reach no client before the whole adapter has come with the
// expected digest (AdapterReading).
//
//   read() of one source -> shown under its name when the rest is near
//        | fails                                | has the digest
//        v                                      v
//   taken back; requests that used it   settle(): the folder has its place
//   or come now wait for the next
//   read(), or for fail()
//
// Only one thread at a time may call its functions; it may be any thread. When memory runs out,
// read() fails, and requests that wait for the adapter still get an answer, if need be a shorter
// one.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "base/file/file_progress.h"
#include "base/status.h"
#include "engine/adapters/adapter_store.h"

namespace tandem {

class AdapterArrival {
 public:
  // A shown adapter that is incomplete after this time is taken back, as others must not wait
  // longer.
  static constexpr std::chrono::milliseconds kLongestShown{1000};

  // The adapter is not shown if its name is taken. `on_shown` is called with true on the thread of
  // read() when the adapter can be used, and with false in read() and fail() when it no longer can;
  // it must not throw. The store outlives the arrival. `bytes`: the expected Adapter::num_bytes; a
  // folder of another size is refused at once. `longest_shown`: how long steps may wait for the
  // rest of a shown adapter.
  AdapterArrival(AdapterStore& store, std::string name, std::string digest, std::uint64_t bytes,
                 std::function<void(bool shown)> on_shown,
                 std::chrono::milliseconds longest_shown = kLongestShown);
  ~AdapterArrival();  // as fail()
  AdapterArrival(const AdapterArrival&) = delete;
  AdapterArrival& operator=(const AdapterArrival&) = delete;

  // Reads the folder; `writing` reports how much of its weights' file is there. Ok: the digest is
  // the expected one. resource_exhausted: the adapter could not be read early, but may be valid.
  // Other failures are those of read_arriving_peft_adapter(), or invalid_argument for another
  // digest. Nothing of a folder that failed is used any more.
  Status read(const std::filesystem::path& folder, std::shared_ptr<const FileProgress> writing);

  // True if the last read() succeeded and the name is served, or was unloaded since.
  bool is_served() const;
  // How long before its last byte arrived the adapter could be used; 0: it could not.
  std::chrono::duration<double> lead() const { return lead_; }

  // The verified adapter is now in this folder for good: bytes that have left memory, or were taken
  // back, are read from there. Returns the adapter that reads there as long as it lives, unloaded
  // or not; null: it was never shown. If memory runs out, throws and changes nothing.
  std::weak_ptr<const ServedAdapter> settle(const std::string& path);
  // No source has the adapter: requests that wait for it get the reason, and the name is not
  // served.
  void fail(const Status& why) noexcept;

 private:
  struct Attempt;
  Result<std::byte*> begin(Attempt& attempt, const Adapter& layout);
  void layer_there(Attempt& attempt, std::size_t layer);
  void end_attempt(const Attempt& attempt, const Status& status) noexcept;

  AdapterStore& store_;
  const std::string name_;
  const std::string digest_;
  const std::uint64_t bytes_;
  const std::function<void(bool)> on_shown_;
  const std::chrono::milliseconds longest_shown_;
  const Status has_not_come_{StatusCode::unavailable, "the adapter has not come"};
  AdapterLease served_;  // null: no adapter was shown
  bool proven_ = false;
  std::chrono::duration<double> lead_{};
};

}  // namespace tandem
