// An adapter that comes from elsewhere into a folder, served while it comes: its layers can be
// computed from as they arrive, and what is computed reaches nobody before all of it has come and
// has the digest that it must have (AdapterReading).
//
//   read() of one source -> shown under its name when the rest is near
//        | fails                                | has the digest
//        v                                      v
//   taken back; who used it, and who    settle(): the folder has its place
//   asks now, waits for the next
//   read(), or fail()
//
// All of its functions are for one thread at a time, whichever that is. Without memory a read()
// fails, and who waits for the adapter is answered all the same, if need be in fewer words.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "base/file_progress.h"
#include "base/status.h"
#include "engine/adapters/adapter_store.h"

namespace tandem {

class AdapterArrival {
 public:
  // A rest that has not come by then will take its time: others shall not wait for it.
  static constexpr std::chrono::milliseconds kLongestShown{1000};

  // Under a name that nobody holds, or it is not shown. `on_shown`, on the thread of read(), when
  // it can be used and, in read() and fail(), when it no longer can; it does not throw. The store
  // outlives this.
  // `bytes`: Adapter::num_bytes of what is expected; a folder of another size is refused at once.
  // `longest_shown`: so long steps wait for the rest of what has been shown.
  AdapterArrival(AdapterStore& store, std::string name, std::string digest, std::uint64_t bytes,
                 std::function<void(bool shown)> on_shown,
                 std::chrono::milliseconds longest_shown = kLongestShown);
  ~AdapterArrival();  // as fail()
  AdapterArrival(const AdapterArrival&) = delete;
  AdapterArrival& operator=(const AdapterArrival&) = delete;

  // Reads the folder, of whose weights' file `writing` tells what is there. Ok: it has the digest.
  // resource_exhausted: it could not be read so early, and may be as good as any. Other failures
  // are those of read_arriving_peft_adapter(), or invalid_argument: another digest. Nothing of a
  // folder that failed is used any more.
  Status read(const std::filesystem::path& folder, std::shared_ptr<const FileProgress> writing);

  // The last read() was good, and the name is served, or somebody has unloaded it since.
  bool is_served() const;
  // How long before the last byte came it could be used; 0: it could not.
  std::chrono::duration<double> lead() const { return lead_; }

  // The adapter is proven to lie in this folder, for good: what of it is in memory no longer, or
  // was taken back, comes from there. Returns who reads there for as long as it lives, unloaded or
  // not; null: it was never shown. Throws where there is no memory, and nothing has changed.
  std::weak_ptr<const ServedAdapter> settle(const std::string& path);
  // Nobody gives the adapter: who waits for it hears why, and the name is not served.
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
  AdapterLease served_;  // that was shown once; null: none was
  bool proven_ = false;
  std::chrono::duration<double> lead_{};
};

}  // namespace tandem
