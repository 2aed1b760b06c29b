#include "gpu/host/host_device.h"

#include <algorithm>
#include <exception>
#include <thread>
#include <utility>

#include "base/limits/process_limits.h"
#include "base/onednn/matmul.h"
#include "base/text/id_list.h"
#include "base/threads/thread_cpus.h"
#include "gpu/host/context/host_communicator.h"
#include "gpu/host/context/thread_pool.h"
#include "gpu/host/host_event.h"
#include "gpu/host/host_stream.h"
#include "gpu/host/kernels/kernels.h"
#include "gpu/host/link.h"
#include "gpu/host/memory.h"

namespace tandem {
namespace host {
namespace {

int usable_cpus() {
  const std::size_t cpus = cpus_of_thread().size();
  // Falls back to the hardware's number if the allowed CPUs are unknown.
  return static_cast<int>(cpus > 0 ? cpus : std::max(1U, std::thread::hardware_concurrency()));
}

class HostDevice final : public Device {
 public:
  HostDevice(int num_threads, const HostDeviceOptions& options, std::size_t memory_bytes)
      : pool_(num_threads, options.cpus), link_(options.link_gbps), memory_(memory_bytes) {
    info_.name =
        fmt::format("host: {} thread{}, {}", num_threads, num_threads == 1 ? "" : "s", simd_name());
    info_.memory_bytes = memory_bytes;
  }

  const DeviceInfo& info() const override { return info_; }

  Result<Buffer> allocate(std::size_t bytes, std::string_view purpose) override {
    return memory_.allocate(bytes, purpose);
  }
  Result<Buffer> allocate_pinned(std::size_t bytes, std::string_view purpose) override {
    return memory_.allocate(bytes, purpose);
  }

  Result<Buffer> pin(std::byte* data, std::size_t bytes, std::string_view) override {
    return Buffer(data, bytes, true, [](std::byte*, std::size_t) {});
  }
  std::size_t free_bytes() const override { return memory_.limit_bytes() - memory_.used_bytes(); }
  bool keeps_packed(const WeightForm&, std::int64_t, std::int64_t, DType) const override {
    return true;
  }

  Result<std::unique_ptr<Stream>> create_stream(std::string_view name) override {
    try {
      return std::unique_ptr<Stream>(std::make_unique<HostStream>(name, pool_, matmuls_, link_));
    } catch (const std::exception& failure) {
      return error(StatusCode::internal, "cannot start stream {}: {}", name, failure_text(failure));
    }
  }
  std::unique_ptr<Event> create_event() override { return std::make_unique<HostEvent>(); }
  std::unique_ptr<Event> create_timed_event() override { return create_event(); }
  Result<std::vector<std::unique_ptr<Communicator>>> connect(
      std::span<Device* const> devices) override {
    return HostCommunicator::connect(devices);
  }

 private:
  DeviceInfo info_;
  ThreadPool pool_;
  MatmulCache matmuls_;
  LinkPacer link_;
  MemoryPool memory_;
};

}  // namespace
}  // namespace host

Result<std::unique_ptr<Device>> make_host_device(const HostDeviceOptions& options) {
  constexpr int kMaxThreads = 4096;
  if (options.num_threads < 0 || options.num_threads > kMaxThreads) {
    return invalid("num_threads is {}: give 0 (choose for me) to {}", options.num_threads,
                   kMaxThreads);
  }
  if (!(options.link_gbps >= 0)) {
    return invalid("link_gbps is {}: give gigabytes per second, or 0 for no limit",
                   options.link_gbps);
  }
  for (const int cpu : options.cpus) {
    if (cpu < 0 || cpu > kMaxId) return invalid("there is no cpu {} to pin to", cpu);
  }
  int num_threads = options.num_threads;
  if (num_threads == 0) {
    num_threads =
        options.cpus.empty() ? host::usable_cpus() : static_cast<int>(options.cpus.size());
  }
  const std::size_t memory_bytes =
      options.memory_limit_bytes != 0 ? options.memory_limit_bytes : host::physical_memory_bytes();
  try {
    return std::unique_ptr<Device>(
        std::make_unique<host::HostDevice>(num_threads, options, memory_bytes));
  } catch (const std::exception& failure) {
    return error(StatusCode::internal, "cannot make the host device: {}", failure_text(failure));
  }
}

}  // namespace tandem
