// A device that forwards to another one: tests override the calls that they observe or change.
#pragma once

#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "gpu/device.h"
#include "gpu/host/host_device.h"

namespace tandem::test {

class ForwardingDevice : public Device {
 public:
  explicit ForwardingDevice(std::unique_ptr<Device> inner) : inner_(std::move(inner)) {}

  const DeviceInfo& info() const override { return inner_->info(); }
  Result<Buffer> allocate(std::size_t bytes, std::string_view purpose) override {
    return inner_->allocate(bytes, purpose);
  }
  Result<Buffer> allocate_pinned(std::size_t bytes, std::string_view purpose) override {
    return inner_->allocate_pinned(bytes, purpose);
  }
  Result<Buffer> pin(std::byte* data, std::size_t bytes, std::string_view purpose) override {
    return inner_->pin(data, bytes, purpose);
  }
  std::size_t free_bytes() const override { return inner_->free_bytes(); }
  bool keeps_packed(const WeightForm& form, std::int64_t rows, std::int64_t cols,
                    DType x) const override {
    return inner_->keeps_packed(form, rows, cols, x);
  }
  std::int64_t max_head_dim() const override { return inner_->max_head_dim(); }
  Result<std::unique_ptr<Stream>> create_stream(std::string_view name) override {
    return inner_->create_stream(name);
  }
  std::unique_ptr<Event> create_event() override { return inner_->create_event(); }
  std::unique_ptr<Event> create_timed_event() override { return inner_->create_timed_event(); }
  Result<std::vector<std::unique_ptr<Communicator>>> connect(
      std::span<Device* const> devices) override {
    std::vector<Device*> behind;
    for (Device* const device : devices) {
      auto* const forwarding = dynamic_cast<ForwardingDevice*>(device);
      behind.push_back(forwarding == nullptr ? device : forwarding->inner_.get());
    }
    return inner_->connect(behind);
  }

 private:
  std::unique_ptr<Device> inner_;
};

// A host device whose page pool is NaN until it is written, so that reading too early spoils the
// text.
class PoisonedDevice : public ForwardingDevice {
 public:
  explicit PoisonedDevice(int num_threads, double link_gbps = 0)
      : ForwardingDevice(make(num_threads, link_gbps)) {}

  Result<Buffer> allocate(std::size_t bytes, std::string_view purpose) override {
    TANDEM_ASSIGN(Buffer buffer, ForwardingDevice::allocate(bytes, purpose));
    if (purpose.find("pool") != std::string_view::npos) std::memset(buffer.data(), 0xff, bytes);
    return buffer;
  }

 private:
  static std::unique_ptr<Device> make(int num_threads, double link_gbps) {
    HostDeviceOptions options;
    options.num_threads = num_threads;
    options.link_gbps = link_gbps;
    return make_host_device(options).value();
  }
};

}  // namespace tandem::test
