// A device whose streams can be told to fail for good, as those of a GPU that has lost its context.
#pragma once

#include <atomic>
#include <memory>
#include <string_view>
#include <utility>

#include "gpu/device.h"

namespace tandem::test {

class FailingStream final : public Stream {
 public:
  FailingStream(std::unique_ptr<Stream> inner, const std::atomic<bool>& lost)
      : inner_(std::move(inner)), lost_(lost) {}

  Status synchronize() override {
    const Status status = inner_->synchronize();
    return lost_ ? Status(StatusCode::fatal, "the context is lost") : status;
  }
  bool failed() const override { return lost_ || inner_->failed(); }

  void record(Event& event) override { inner_->record(event); }
  void wait(Event& event) override { inner_->wait(event); }
  void copy_to_device(void* device, const void* host, std::size_t bytes) override {
    inner_->copy_to_device(device, host, bytes);
  }
  void copy_to_host(void* host, const void* device, std::size_t bytes) override {
    inner_->copy_to_host(host, device, bytes);
  }
  Status begin_recording() override { return inner_->begin_recording(); }
  Result<std::unique_ptr<Graph>> end_recording() override { return inner_->end_recording(); }
  void launch(Graph& graph) override { inner_->launch(graph); }
  void plan_attention(const AttentionPlan& plan) override { inner_->plan_attention(plan); }
  void resolve_tokens(const ResolveTokensArgs& args) override { inner_->resolve_tokens(args); }
  void embed(const EmbedArgs& args) override { inner_->embed(args); }
  void rms_norm(const RmsNormArgs& args) override { inner_->rms_norm(args); }
  void gemm(const GemmArgs& args) override { inner_->gemm(args); }
  void rope_append(const RopeAppendArgs& args) override { inner_->rope_append(args); }
  void attention(const AttentionArgs& args) override { inner_->attention(args); }
  void swiglu(const SwigluArgs& args) override { inner_->swiglu(args); }
  void gather_rows(const GatherRowsArgs& args) override { inner_->gather_rows(args); }
  void lora(const LoraArgs& args) override { inner_->lora(args); }
  void sample(const SampleArgs& args) override { inner_->sample(args); }

 private:
  std::unique_ptr<Stream> inner_;
  const std::atomic<bool>& lost_;
};

class FailingDevice final : public Device {
 public:
  explicit FailingDevice(std::unique_ptr<Device> inner) : inner_(std::move(inner)) {}

  void lose_context() { lost_ = true; }

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
  Result<std::unique_ptr<Stream>> create_stream(std::string_view name) override {
    TANDEM_ASSIGN(auto stream, inner_->create_stream(name));
    return std::unique_ptr<Stream>(std::make_unique<FailingStream>(std::move(stream), lost_));
  }
  std::unique_ptr<Event> create_event() override { return inner_->create_event(); }

 private:
  std::unique_ptr<Device> inner_;
  std::atomic<bool> lost_ = false;
};

}  // namespace tandem::test
