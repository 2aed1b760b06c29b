#include "engine/loader/peft_reread.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/loader/adapter_layout.h"
#include "engine/loader/peft_folder.h"

namespace tandem {
namespace {

// An adapter that is read again: first all its jobs, by layer, then, where it is wanted, the pieces
// of its digest, each when the jobs whose bytes it holds are done. Threads take both in order.
class Reread {
 public:
  Reread(const PeftFolder& folder, const Adapter& known, ThreadCrew& crew, std::byte* target,
         const std::function<void(std::size_t)>& layer_there)
      : folder_(folder),
        jobs_(folder.jobs()),
        crew_(crew),
        target_(target),
        layer_there_(layer_there),
        digest_(known),
        layer_jobs_(known.layers.size()),
        piece_jobs_(digest_.num_pieces()) {
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      ++layer_jobs_[static_cast<std::size_t>(jobs_[i].layer)];
      for (std::size_t piece = first_piece(i); piece <= last_piece(i); ++piece) {
        ++piece_jobs_[piece];
      }
    }
  }

  Status read() {
    crew_.run(jobs_.size(), [this](std::size_t i) { fill(i); });
    return failure_;
  }
  // Of what was read.
  Result<std::string> digest() {
    crew_.run(digest_.num_pieces(), [this](std::size_t i) { hash(i); });
    return digest_.finish();
  }
  Result<std::string> read_and_digest() {
    crew_.run(jobs_.size() + digest_.num_pieces(), [this](std::size_t i) {
      if (i < jobs_.size()) {
        fill(i);
      } else {
        hash(i - jobs_.size());
      }
    });
    TANDEM_TRY(failure_);
    return digest_.finish();
  }

 private:
  std::size_t begin_of(std::size_t job) const { return job == 0 ? 0 : jobs_[job - 1].end; }
  std::size_t first_piece(std::size_t job) const {
    return begin_of(job) / AdapterDigest::kPieceBytes;
  }
  std::size_t last_piece(std::size_t job) const {
    return (jobs_[job].end - 1) / AdapterDigest::kPieceBytes;
  }

  void fill(std::size_t job) {
    // relaxed: what is read in vain does no harm
    if (!failed_.load(std::memory_order_relaxed)) {
      thread_local PeftScratch scratch;
      if (Status filled = folder_.fill(jobs_[job], target_, scratch); !filled) {
        fail(std::move(filled));
      }
    }
    const auto layer = static_cast<std::size_t>(jobs_[job].layer);
    // acq_rel: the last job of the layer, or piece, sees what all of them wrote
    if (layer_jobs_[layer].fetch_sub(1, std::memory_order_acq_rel) == 1 &&
        !failed_.load(std::memory_order_relaxed)) {
      layer_there_(layer);
    }
    for (std::size_t piece = first_piece(job); piece <= last_piece(job); ++piece) {
      if (piece_jobs_[piece].fetch_sub(1, std::memory_order_acq_rel) == 1) {
        piece_jobs_[piece].notify_all();
      }
    }
  }

  // All jobs have been taken when the first piece is: its jobs end, whoever does them.
  void hash(std::size_t piece) {
    for (;;) {
      // acquire: pairs with the jobs' release
      const std::int32_t left = piece_jobs_[piece].load(std::memory_order_acquire);
      if (left == 0) break;
      piece_jobs_[piece].wait(left, std::memory_order_acquire);
    }
    if (!failed_.load(std::memory_order_relaxed)) digest_.add(piece, target_);
  }

  void fail(Status status) {
    const std::lock_guard lock(mutex_);
    if (failure_.ok()) failure_ = std::move(status);
    failed_.store(true, std::memory_order_relaxed);
  }

  const PeftFolder& folder_;
  const std::vector<PeftJob>& jobs_;
  ThreadCrew& crew_;
  std::byte* const target_;
  const std::function<void(std::size_t)>& layer_there_;
  AdapterDigest digest_;
  std::vector<std::atomic<std::int32_t>> layer_jobs_;  // not done
  std::vector<std::atomic<std::int32_t>> piece_jobs_;
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  Status failure_;  // guarded by mutex_ while threads run
};

bool same_layout(const Adapter& a, const Adapter& b) {
  const auto same = [](const AdapterMatrix& x, const AdapterMatrix& y) {
    return x.rank == y.rank && x.b_stride == y.b_stride && x.a_offset == y.a_offset &&
           x.b_offset == y.b_offset;
  };
  return a.dtype == b.dtype && a.num_bytes == b.num_bytes &&
         std::ranges::equal(a.layers, b.layers, [&](const auto& x, const auto& y) {
           return std::ranges::equal(x, y, same);
         });
}

}  // namespace

Result<RereadOutcome> reread_peft_adapter(const std::filesystem::path& dir,
                                          const ModelConfig& config, const Adapter& known,
                                          const std::shared_ptr<const PeftSource>& source,
                                          ThreadCrew& crew, std::byte* target,
                                          const std::function<void(std::size_t layer)>& layer_there,
                                          std::int64_t now_ns) {
  if (source != nullptr) {
    if (const auto folder = PeftFolder::reopen(dir, source, known.dtype)) {
      Reread reread(*folder, known, crew, target, layer_there);
      TANDEM_TRY(reread.read());
      if (folder->is_unchanged()) return RereadOutcome{true, false, source};
      TANDEM_ASSIGN(const std::string digest, reread.digest());
      return RereadOutcome{digest == known.digest, true, nullptr};
    }
  }
  TANDEM_ASSIGN(const PeftFolder folder, PeftFolder::open(dir, config, known.dtype));
  if (!same_layout(folder.adapter(), known)) return RereadOutcome{};
  Reread reread(folder, known, crew, target, layer_there);
  TANDEM_ASSIGN(const std::string digest, reread.read_and_digest());
  if (digest != known.digest) return RereadOutcome{false, true, nullptr};
  return RereadOutcome{true, true, folder.source(now_ns)};
}

}  // namespace tandem
