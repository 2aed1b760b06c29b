#include "engine/adapters/adapter_reader.h"

#include <pthread.h>

#include <algorithm>
#include <exception>
#include <utility>
#include <vector>

#include "base/log/log.h"
#include "base/threads/thread_cpus.h"
#include "engine/adapters/adapter_reading.h"
#include "engine/adapters/adapter_sets.h"
#include "engine/loader/adapter_layout.h"
#include "engine/loader/adapter_sum.h"
#include "engine/loader/peft/peft_source.h"

namespace tandem {

AdapterReader::AdapterReader(const ModelSpec& spec, std::shared_ptr<HostTier> host,
                             const AdapterReaderOptions& options, std::function<void()> tell)
    : spec_(&spec), host_(std::move(host)), options_(options), tell_(std::move(tell)) {
  thread_ = std::thread([this] { loop(); });
}

AdapterReader::~AdapterReader() {
  stop();
}

void AdapterReader::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

// Skips 0, which words hold before any reading.
std::uint32_t AdapterReader::next_generation() {
  const std::uint32_t next = generation_.fetch_add(1, std::memory_order_relaxed) + 1;
  return next != 0 ? next : next_generation();
}

void AdapterReader::request(const AdapterLease& adapter) {
  if (!adapter->home().begin_reading()) return;
  {
    const std::lock_guard lock(mutex_);
    reads_.push_back(adapter);
    host_->cores().expect(static_cast<std::int64_t>(adapter->bytes()));
  }
  changed_.notify_one();
}

void AdapterReader::loop() {
  pthread_setname_np(pthread_self(), "adapter disk");
  const std::span<const int> cpus = options_.readers.cpus;
  const bool anywhere = cpus.empty();
  ThreadTeam team = anywhere
                        ? ThreadTeam(ThreadTeam::helpers_for_machine())
                        : ThreadTeam(static_cast<int>(cpus.size()) - 1, "loader", cpus.subspan(1));
  if (!anywhere) {
    // After the others have started, as a thread that cannot be pinned runs where it was started.
    pin_this_thread(cpus.first(1), "the thread that reads adapters");
    team.leave_when([this](std::size_t thread) {
      return thread >= options_.readers.apart && host_->cores().are_computing();
    });
  }
  team_ = &team;
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !reads_.empty(); });
    if (stopping_) return;
    AdapterLease adapter = std::move(reads_.front());
    reads_.pop_front();
    lock.unlock();
    read_and_tell(*adapter);
    host_->cores().expect(-static_cast<std::int64_t>(adapter->bytes()));
    adapter.reset();
    tell_();
    lock.lock();
  }
}

// Ends the reading in any case, as requests wait for it.
void AdapterReader::read_and_tell(ServedAdapter& adapter) noexcept {
  Status read;
  if (options_.cold_starts != nullptr) options_.cold_starts->read_begins(adapter);
  try {
    read = read_again(adapter);
    if (!read) {
      log::warning("adapter '{}' cannot be read again from {}: {}", adapter.name(), adapter.path(),
                   read.message());
    }
  } catch (const std::exception&) {
    read = {StatusCode::unavailable, "out of memory"};
  }
  if (options_.cold_starts != nullptr) options_.cold_starts->read_ended(adapter, read.ok());
  adapter.home().end_reading(std::move(read));
}

// Others see the adapter before all of it is present, but only when the rest is near: a load that
// waits for a slow disk would delay all loads behind it.
Status AdapterReader::read_again(ServedAdapter& adapter) {
  const Adapter& known = adapter.contents();
  TANDEM_ASSIGN(const AdapterBytes bytes, host_->take_when_free(AdapterReading::bytes_with_words(
                                              known.num_bytes, known.layers.size())));
  const auto reading = std::make_shared<AdapterReading>(known, bytes.get(), next_generation());
  std::atomic<bool> shown{false};  // relaxed: it publishes nothing
  const auto layer_there = [&](std::size_t layer) {
    reading->layer_there(layer);
    if (reading->rest() > AdapterReading::kNear ||
        shown.exchange(true, std::memory_order_relaxed)) {
      return;
    }
    reading->show();
    adapter.home().put(bytes, reading);
    tell_();
  };
  TANDEM_TRY(adapter.set().empty() ? read_folder(adapter, bytes.get(), layer_there)
                                   : read_sum(adapter, bytes.get(), layer_there));
  if (!shown.load(std::memory_order_relaxed)) adapter.home().put(bytes);
  return {};
}

Status AdapterReader::read_folder(ServedAdapter& adapter, std::byte* target,
                                  const LayerThere& layer_there) {
  const AdapterHome::Folder folder = adapter.home().folder();
  const Result<RereadOutcome> read =
      reread_peft_adapter(folder.path, *spec_, adapter.contents(), folder.source, *team_, target,
                          layer_there, options_.now_ns(), options_.links);
  TANDEM_TRY(explain(adapter, read));
  // relaxed: it counts, and publishes nothing
  if (read->hashed) hashed_reads_.fetch_add(1, std::memory_order_relaxed);
  if (read->source != folder.source) adapter.home().set_source({folder.path, read->source});
  return {};
}

Status AdapterReader::read_sum(const ServedAdapter& sum, std::byte* target,
                               const LayerThere& layer_there) {
  std::vector<AdapterBytes> held;  // the host tier keeps them meanwhile
  std::vector<const std::byte*> bytes;
  for (const ScaledAdapter& each : sum.set()) {
    TANDEM_ASSIGN(held.emplace_back(), bytes_of(*each.adapter));
    bytes.push_back(held.back().get());
  }
  const std::vector<SummedAdapter> parts = parts_of_set(sum.set());
  team_->run(sum.contents().layers.size(), [&](std::size_t layer, std::size_t) {
    const std::span<const AdapterMatrix> matrices = sum.contents().layers[layer];
    if (std::ranges::none_of(matrices, [](const auto& matrix) { return matrix.rank > 0; })) return;
    sum_layer(*spec_, sum.contents(), parts, bytes, layer, target);
    layer_there(layer);
  });
  return {};
}

// Those in the host tier; else the folder is read into other memory, as room in the tier may have
// to be waited for while other parts of a sum are held there.
Result<AdapterBytes> AdapterReader::bytes_of(ServedAdapter& adapter) {
  AdapterHome::Copy copy = adapter.home().copy();
  if (copy.bytes != nullptr) {
    if (copy.reading != nullptr) TANDEM_TRY(copy.reading->wait());
    return std::move(copy.bytes);
  }
  Adapter memory;
  memory.num_bytes = adapter.contents().num_bytes;
  TANDEM_TRY(allocate_bytes(memory));
  TANDEM_TRY(read_folder(adapter, memory.bytes.get(), [](std::size_t) {}));
  return std::move(memory.bytes);
}

Status AdapterReader::explain(const ServedAdapter& adapter, const Result<RereadOutcome>& read) {
  if (!read) {
    if (read.status().code() == StatusCode::resource_exhausted) return read.status();
    return error(StatusCode::unavailable,
                 "adapter '{}' is no longer in memory, and its folder cannot be read ({}); load it "
                 "again with load_inplace",
                 adapter.name(), read.status().message());
  }
  if (read->same) return {};
  return error(StatusCode::unavailable,
               "adapter '{}' is no longer in memory, and its folder's content has changed since it "
               "was loaded; load it again with load_inplace",
               adapter.name());
}

}  // namespace tandem
