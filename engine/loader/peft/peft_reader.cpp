#include "engine/loader/peft/peft_reader.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/loader/adapter_layout.h"
#include "engine/loader/peft/peft_folder.h"
#include "engine/loader/score_head.h"

namespace tandem {
namespace {

// Reads a folder's weights into memory. Threads take all jobs first, by layer, and then, if a
// digest is wanted, its pieces; each piece is hashed when the jobs that write its bytes are done.
class Reading {
 public:
  using LayerThere = std::function<void(std::size_t)>;

  // `layout` is the adapter's layout; `target` has its num_bytes.
  Reading(const PeftFolder& folder, const Adapter& layout, ThreadTeam& team, std::byte* target,
          LayerThere layer_there)
      : folder_(folder),
        jobs_(folder.jobs()),
        team_(team),
        target_(target),
        layer_there_(std::move(layer_there)),
        digest_(layout),
        layer_jobs_(layout.layers.size()),
        piece_jobs_(digest_.num_pieces()),
        scratch_(team.num_threads()) {
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      ++layer_jobs_[static_cast<std::size_t>(jobs_[i].layer)];
      for (std::size_t piece = first_piece(i); piece <= last_piece(i); ++piece) {
        ++piece_jobs_[piece];
      }
    }
  }

  // Makes the reader refuse weights that are not finite. Needed for contents read for the first
  // time.
  void check_finite(const ModelSpec& base) { checked_base_ = &base; }

  Status read() {
    team_.run(jobs_.size(), [this](std::size_t i, std::size_t thread) { fill(i, thread); });
    return failure_;
  }
  // Returns the digest of the bytes read.
  Result<std::string> digest() {
    team_.run(digest_.num_pieces(), [this](std::size_t i, std::size_t) { hash(i); });
    return digest_.finish();
  }
  // Reads on this thread alone, in the order of the file, and hashes each piece after its last job,
  // so that with a slow source little work is left when the last byte arrives.
  Result<std::string> read_as_it_comes() {
    std::vector<std::size_t> order(jobs_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::sort(order, {}, [this](std::size_t job) {
      return std::max({jobs_[job].a_begin, jobs_[job].b_begin, jobs_[job].bias_begin});
    });
    for (const std::size_t job : order) {
      fill(job, 0);
      TANDEM_TRY(failure_);
      for (std::size_t piece = first_piece(job); piece <= last_piece(job); ++piece) {
        if (piece_jobs_[piece].load(std::memory_order_relaxed) == 0) digest_.add(piece, target_);
      }
    }
    return digest_.finish();
  }
  Result<std::string> read_and_digest() {
    team_.run(jobs_.size() + digest_.num_pieces(), [this](std::size_t i, std::size_t thread) {
      if (i < jobs_.size()) {
        fill(i, thread);
      } else {
        hash(i - jobs_.size());
      }
    });
    TANDEM_TRY(failure_);
    return digest_.finish();
  }

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  std::size_t begin_of(std::size_t job) const { return job == 0 ? 0 : jobs_[job - 1].end; }
  std::size_t first_piece(std::size_t job) const {
    return begin_of(job) / AdapterDigest::kPieceBytes;
  }
  std::size_t last_piece(std::size_t job) const {
    return (jobs_[job].end - 1) / AdapterDigest::kPieceBytes;
  }

  // Jobs before a failed one still run, so that the first failure in order is reported.
  bool is_in_vain(std::size_t job) const {
    // Relaxed: a job that runs in vain does no harm.
    return job > failed_job_.load(std::memory_order_relaxed);
  }

  // noexcept, because others wait for the job's end: every job must end.
  Status fill_and_check(std::size_t job, PeftScratch& scratch) const noexcept {
    try {
      TANDEM_TRY(folder_.fill(jobs_[job], target_, scratch));
      if (checked_base_ == nullptr) return {};
      return folder_.check_finite(jobs_[job], target_, *checked_base_);
    } catch (const std::exception&) {
      return no_memory();
    }
  }
  void tell(std::size_t job, std::size_t layer) noexcept {
    try {
      layer_there_(layer);
    } catch (const std::exception&) {
      fail(job, no_memory());
    }
  }
  // The message is short enough for std::string to store without allocating.
  static Status no_memory() { return {StatusCode::unavailable, "out of memory"}; }

  void fill(std::size_t job, std::size_t thread) {
    if (!is_in_vain(job)) {
      if (Status filled = fill_and_check(job, scratch_[thread]); !filled) {
        fail(job, std::move(filled));
      }
    }
    const auto layer = static_cast<std::size_t>(jobs_[job].layer);
    // acq_rel: the last job of the layer, or of the piece, sees the writes of all of them
    if (layer_jobs_[layer].fetch_sub(1, std::memory_order_acq_rel) == 1 && !has_failed() &&
        layer_there_) {
      tell(job, layer);
    }
    for (std::size_t piece = first_piece(job); piece <= last_piece(job); ++piece) {
      if (piece_jobs_[piece].fetch_sub(1, std::memory_order_acq_rel) == 1) {
        piece_jobs_[piece].notify_all();
      }
    }
  }

  // All jobs have been taken before the first piece is, so every job that this waits for ends.
  void hash(std::size_t piece) {
    for (;;) {
      // acquire: pairs with the jobs' release
      const std::int32_t left = piece_jobs_[piece].load(std::memory_order_acquire);
      if (left == 0) break;
      piece_jobs_[piece].wait(left, std::memory_order_acquire);
    }
    if (!has_failed()) digest_.add(piece, target_);
  }

  bool has_failed() const { return failed_job_.load(std::memory_order_relaxed) != kNone; }
  void fail(std::size_t job, Status status) {
    const std::lock_guard lock(mutex_);
    if (job > failed_job_.load(std::memory_order_relaxed)) return;
    failure_ = std::move(status);
    failed_job_.store(job, std::memory_order_relaxed);
  }

  const PeftFolder& folder_;
  const std::vector<PeftJob>& jobs_;
  ThreadTeam& team_;
  std::byte* const target_;
  const LayerThere layer_there_;
  const ModelSpec* checked_base_ = nullptr;  // null: weights need not be finite
  AdapterDigest digest_;
  std::vector<std::atomic<std::int32_t>> layer_jobs_;  // jobs not done
  std::vector<std::atomic<std::int32_t>> piece_jobs_;
  std::vector<PeftScratch> scratch_;  // one per thread
  std::atomic<std::size_t> failed_job_{kNone};
  std::mutex mutex_;  // held while failed_job_ changes
  Status failure_;    // guarded by mutex_ while threads run
};

}  // namespace

bool same_layout(const Adapter& a, const Adapter& b) {
  const auto same = [](const AdapterMatrix& x, const AdapterMatrix& y) {
    return x.rank == y.rank && x.b_stride == y.b_stride && x.a_offset == y.a_offset &&
           x.b_offset == y.b_offset;
  };
  const auto labels = [](const Adapter& x) { return x.score == nullptr ? 0 : x.score->labels; };
  return a.dtype == b.dtype && a.vocab_size == b.vocab_size && labels(a) == labels(b) &&
         a.invocation == b.invocation && a.num_bytes == b.num_bytes &&
         std::ranges::equal(a.layers.all(), b.layers.all(), same);
}

Result<Adapter> load_peft_adapter(const std::filesystem::path& dir, const ModelSpec& spec,
                                  DType dtype, const AllocateBytes& allocate, std::int64_t now_ns,
                                  const LinkRule& links) {
  // Fewer bytes are read faster than a thread starts.
  constexpr std::size_t kBytesPerThread = 2 << 20;
  TANDEM_ASSIGN(const PeftFolder folder, PeftFolder::open(dir, spec, dtype, links));
  Adapter adapter = folder.adapter();
  TANDEM_TRY(allocate_bytes(adapter, allocate));
  BorrowedTeam borrowed(adapter.num_bytes / kBytesPerThread);
  Reading reading(folder, adapter, borrowed.team(), adapter.bytes.get(), nullptr);
  reading.check_finite(spec);
  TANDEM_ASSIGN(adapter.digest, reading.read_and_digest());
  adapter.source = folder.source(now_ns);
  return adapter;
}

Result<RereadOutcome> reread_peft_adapter(const std::filesystem::path& dir, const ModelSpec& spec,
                                          const Adapter& known,
                                          const std::shared_ptr<const PeftSource>& source,
                                          ThreadTeam& team, std::byte* target,
                                          const std::function<void(std::size_t layer)>& layer_there,
                                          std::int64_t now_ns, const LinkRule& links) {
  if (source != nullptr) {
    if (const auto folder = PeftFolder::reopen(dir, source, known.dtype, links)) {
      Reading reading(*folder, known, team, target, layer_there);
      TANDEM_TRY(reading.read());
      if (folder->is_unchanged()) return RereadOutcome{true, false, source};
      TANDEM_ASSIGN(const std::string digest, reading.digest());
      return RereadOutcome{digest == known.digest, true, nullptr};
    }
  }
  TANDEM_ASSIGN(const PeftFolder folder, PeftFolder::open(dir, spec, known.dtype, links));
  if (!same_layout(folder.adapter(), known)) return RereadOutcome{};
  Reading reading(folder, known, team, target, layer_there);
  TANDEM_ASSIGN(const std::string digest, reading.read_and_digest());
  if (digest != known.digest) return RereadOutcome{false, true, nullptr};
  return RereadOutcome{true, true, folder.source(now_ns)};
}

Result<std::string> read_arriving_peft_adapter(
    const std::filesystem::path& dir, const ModelSpec& spec, DType dtype,
    std::shared_ptr<const FileProgress> writing,
    const std::function<Result<std::byte*>(const Adapter& layout)>& begin,
    const std::function<void(std::size_t layer)>& layer_there, const LinkRule& links) {
  TANDEM_ASSIGN(const PeftFolder folder,
                PeftFolder::open(dir, spec, dtype, links, std::move(writing)));
  TANDEM_ASSIGN(std::byte* const target, begin(folder.adapter()));
  ThreadTeam alone(0);
  Reading reading(folder, folder.adapter(), alone, target, layer_there);
  reading.check_finite(spec);
  return reading.read_as_it_comes();
}

}  // namespace tandem
