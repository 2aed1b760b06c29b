#include "engine/server/cluster/file_sender.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/log/log.h"

namespace tandem {
namespace {

constexpr std::size_t kBlockBytes = std::size_t{128} << 10;
constexpr int kReaders = 2;

}  // namespace

// The state shared by the connection and the reading thread. One block is read at a time.
struct FileSender::Transfer {
  explicit Transfer(AdapterFile sent)
      : file(std::move(sent)),
        due(std::chrono::steady_clock::now() + kGrace +
            duration_of(static_cast<double>(file.file.size()) / kSlowest)),
        state(file.file.size() == 0 ? BodySource::Pull::end : BodySource::Pull::more) {}

  const AdapterFile file;
  const TimePoint due;       // after this time its place is given to another transfer
  std::uint64_t offset = 0;  // used by the reading thread only

  std::mutex mutex;
  std::string block;       // read but not pulled; guarded by mutex, like the rest
  BodySource::Pull state;  // the state after the block has been pulled: more, end or broken
  bool is_reading = false;
  std::function<void()> wake;

  // Runs on the reading thread.
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
    if (wake) wake();  // only posts to the connection's loop, and calls nothing of this class
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
      log::warning("an adapter's {} could not be sent completely: {}", file.file.path(),
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
    if (std::chrono::steady_clock::now() > transfer_->due) return Pull::broken;
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
  auto transfer = std::make_shared<Transfer>(std::move(file));
  {
    const TimePoint now = std::chrono::steady_clock::now();
    const std::lock_guard lock(mutex_);
    std::erase_if(under_way_, [&](const std::weak_ptr<Transfer>& each) {
      const auto alive = each.lock();
      return alive == nullptr || now > alive->due;
    });
    if (under_way_.size() >= kMostAtOnce) return nullptr;
    under_way_.push_back(transfer);
  }
  std::call_once(started_, [this] { lane_.start(kReaders); });
  return std::make_unique<Source>(lane_, std::move(transfer));
}

}  // namespace tandem
