// A device whose streams can be made to fail: permanently, like those of a GPU that has lost its
// context, or once.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <new>
#include <span>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "gpu/host/host_stream.h"
#include "tests/support/forwarding_device.h"

namespace tandem::test {

struct Faults {
  std::atomic<bool> lost = false;
  std::atomic<int> samples_left = -1;  // sample() calls before the failing one; negative: none
  std::atomic<int> gemms_left = -1;    // the same for gemm(), on the host device
  std::atomic<bool> throws = false;    // gemm() throws instead of failing when it runs
  std::atomic<int> halved = 0;         // number of lora() calls for the first half of an adapter
  std::function<void()> synchronizing;
};

class FailingStream final : public Stream {
 public:
  FailingStream(std::unique_ptr<Stream> inner, Faults& faults)
      : inner_(std::move(inner)), faults_(faults) {}

  Status synchronize() override {
    if (faults_.synchronizing) faults_.synchronizing();
    const Status status = inner_->synchronize();
    if (faults_.lost) return Status(StatusCode::fatal, "the context is lost");
    return std::exchange(failed_, false) ? Status(StatusCode::internal, "sample failed") : status;
  }
  bool failed() const override { return faults_.lost || failed_ || inner_->failed(); }

  Status prepare() override { return inner_->prepare(); }
  void record(Event& event) override { inner_->record(event); }
  void wait(Event& event) override { inner_->wait(event); }
  void copy_to_device(void* device, const void* host, std::size_t bytes) override {
    inner_->copy_to_device(device, host, bytes);
  }
  void copy_to_host(void* host, const void* device, std::size_t bytes) override {
    if (!failed_) inner_->copy_to_host(host, device, bytes);
  }
  Status begin_recording() override { return inner_->begin_recording(); }
  Result<std::unique_ptr<Graph>> end_recording() override { return inner_->end_recording(); }
  void launch(Graph& graph) override { inner_->launch(graph); }
  void plan_attention(const AttentionPlan& plan) override { inner_->plan_attention(plan); }
  void resolve_tokens(const ResolveTokensArgs& args) override { inner_->resolve_tokens(args); }
  void embed(const EmbedArgs& args) override { inner_->embed(args); }
  void rms_norm(const RmsNormArgs& args) override { inner_->rms_norm(args); }
  void sum_squares(const SumSquaresArgs& args) override { inner_->sum_squares(args); }
  void add_norm(const AddNormArgs& args) override { inner_->add_norm(args); }
  void gemm(const GemmArgs& args) override {
    if (faults_.gemms_left >= 0 && faults_.gemms_left-- == 0) {
      if (faults_.throws) throw std::bad_alloc();
      dynamic_cast<host::HostStream&>(*inner_).run(
          "gemm", [] { throw std::runtime_error("out of cores"); });
    }
    inner_->gemm(args);
  }
  Status tune_gemm(std::span<const GemmArgs> like) override { return inner_->tune_gemm(like); }
  void rotary_angles(const RotaryAnglesArgs& args) override { inner_->rotary_angles(args); }
  void rope_append(const RopeAppendArgs& args) override { inner_->rope_append(args); }
  void attention(const AttentionArgs& args) override { inner_->attention(args); }
  void swiglu(const SwigluArgs& args) override { inner_->swiglu(args); }
  void scale_logits(const ScaleLogitsArgs& args) override { inner_->scale_logits(args); }
  void gather_rows(const GatherRowsArgs& args) override { inner_->gather_rows(args); }
  void lora(const LoraArgs& args) override {
    if (args.part == LoraPart::shrink && args.ids == nullptr) ++faults_.halved;
    inner_->lora(args);
  }
  void all_reduce(const AllReduceArgs& args) override { inner_->all_reduce(args); }
  void all_gather(const AllGatherArgs& args) override { inner_->all_gather(args); }
  void offer(const OfferArgs& args) override { inner_->offer(args); }
  void accept(const AcceptArgs& args) override { inner_->accept(args); }
  void set_flag(std::uint32_t* flag, std::uint32_t value, std::int32_t count) override {
    inner_->set_flag(flag, value, count);
  }
  void wait_flag(const std::uint32_t* flag, std::uint32_t value) override {
    inner_->wait_flag(flag, value);
  }
  void sample(const SampleArgs& args) override {
    if (faults_.samples_left >= 0 && faults_.samples_left-- == 0) failed_ = true;
    if (!failed_) inner_->sample(args);
  }

 private:
  std::unique_ptr<Stream> inner_;
  Faults& faults_;
  bool failed_ = false;  // belongs to the enqueueing thread, which is also the one that waits
};

class FailingDevice final : public ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;

  void lose_context() { faults_.lost = true; }
  // Makes the sample() after `count` more fail; later work is dropped until the failure is
  // reported.
  void fail_sample(int count) { faults_.samples_left = count; }
  // The same for a gemm(), which fails when it runs, or throws when it is enqueued.
  void fail_gemm(int count, bool throws) {
    faults_.throws = throws;
    faults_.gemms_left = count;
  }

  // Called before each synchronize().
  void on_synchronize(std::function<void()> call) { faults_.synchronizing = std::move(call); }
  // Number of adapters in steps or recordings that were computed in two halves.
  int num_halved() const { return faults_.halved; }

  Result<std::unique_ptr<Stream>> create_stream(std::string_view name) override {
    TANDEM_ASSIGN(auto stream, ForwardingDevice::create_stream(name));
    return std::unique_ptr<Stream>(std::make_unique<FailingStream>(std::move(stream), faults_));
  }

 private:
  Faults faults_;
};

}  // namespace tandem::test
