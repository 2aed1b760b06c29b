#include "engine/server/cluster/file_sender.h"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <utility>

#include "base/log.h"

namespace tandem {
namespace {

constexpr std::size_t kBlockBytes = std::size_t{128} << 10;
constexpr int kReaders = 2;

// relaxed: a count alone
void give_place_back(std::atomic<int>* under_way) {
  under_way->fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace

// What the connection and the reading thread share. One block is read at a time.
struct FileSender::Transfer {
  Transfer(AdapterFile sent, Place counted)
      : file(std::move(sent)),
        place(std::move(counted)),
        state(file.file.size() == 0 ? BodySource::Pull::end : BodySource::Pull::more) {}

  const AdapterFile file;
  const Place place;
  std::uint64_t offset = 0;  // of the reading thread

  std::mutex mutex;
  std::string block;       // read and not yet pulled; guarded by mutex, like the rest
  BodySource::Pull state;  // once the block is pulled: more, end or broken
  bool is_reading = false;
  std::function<void()> wake;

  // By the reading thread.
  void read() noexcept {
    std::string read_now;
    BodySource::Pull next = BodySource::Pull::broken;
    try {
      next = read_block(read_now);
    } catch (const std::exception&) {  // no memory
    }
    const std::lock_guard lock(mutex);
    if (next != BodySource::Pull::broken) block = std::move(read_now);
    state = next;
    is_reading = false;
    if (wake) wake();  // it posts, and calls nothing of ours
  }

  BodySource::Pull read_block(std::string& into) {
    const std::uint64_t size = file.file.size();
    into.resize(std::min<std::uint64_t>(kBlockBytes, size - offset));
    Status status = file.file.read(offset, into.data(), into.size());
    offset += into.size();
    const bool is_last = offset == size;
    if (status && is_last) {
      const Result<FileIdentity> now = file.file.identity();
      if (!now || *now != file.identity) status = invalid("it has changed while it was sent");
    }
    if (!status) {
      log::warning("an adapter's {} is not sent to the end: {}", file.file.path(),
                   status.message());
      return BodySource::Pull::broken;
    }
    return is_last ? BodySource::Pull::end : BodySource::Pull::more;
  }
};

class FileSender::Source final : public BodySource {
 public:
  Source(WorkerLane& lane, std::shared_ptr<Transfer> transfer)
      : lane_(lane), transfer_(std::move(transfer)) {}
  ~Source() override { on_ready({}); }
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  void on_ready(std::function<void()> wake) override {
    const std::lock_guard lock(transfer_->mutex);
    transfer_->wake = std::move(wake);
  }

  Pull pull(std::string& out) override {
    const std::lock_guard lock(transfer_->mutex);
    if (transfer_->is_reading) return Pull::wait;
    out += transfer_->block;
    transfer_->block.clear();
    if (transfer_->state != Pull::more) return transfer_->state;
    transfer_->is_reading = true;
    if (!lane_.run([transfer = transfer_] { transfer->read(); })) return Pull::broken;
    return Pull::wait;
  }

 private:
  WorkerLane& lane_;
  const std::shared_ptr<Transfer> transfer_;
};

FileSender::FileSender() = default;

FileSender::~FileSender() {
  lane_.stop();
}

std::unique_ptr<BodySource> FileSender::send(AdapterFile file) {
  const int before = under_way_.fetch_add(1, std::memory_order_relaxed);
  Place place(&under_way_, give_place_back);
  if (before >= kMostAtOnce) return nullptr;
  auto transfer = std::make_shared<Transfer>(std::move(file), std::move(place));
  std::call_once(started_, [this] { lane_.start(kReaders); });
  return std::make_unique<Source>(lane_, std::move(transfer));
}

}  // namespace tandem
