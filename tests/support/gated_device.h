// A host device whose adapter loads wait until the compute stream has done a given number of
// operations, so that the takeover from CPU workers can be forced between any two. Alternatively
// its steps end one by one when the test says so.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "gpu/device.h"
#include "gpu/host/host_stream.h"
#include "tests/support/forwarding_device.h"

namespace tandem::test {

// Counts operations of the compute stream and holds loads back. Thread-safe.
class LoadGate {
 public:
  static constexpr std::int64_t kOpen = std::numeric_limits<std::int64_t>::min();
  static constexpr std::int64_t kAll = std::numeric_limits<std::int64_t>::max();

  // From now on the first `num_b` pieces of the load stream wait for operation `b_at`, and all
  // other pieces for operation `at`, counted from now.
  void close(std::int64_t at, std::int64_t b_at = 0, std::int64_t num_b = 0) {
    const std::lock_guard lock(mutex_);
    done_ = 0;
    at_ = at;
    b_at_ = b_at;
    num_b_ = num_b;
  }
  void open() {
    const std::lock_guard lock(mutex_);
    at_ = b_at_ = kOpen;
    changed_.notify_all();
  }
  // Compute operations wait until let_go().
  void hold() {
    const std::lock_guard lock(mutex_);
    held_ = true;
  }
  void let_go() {
    const std::lock_guard lock(mutex_);
    held_ = false;
    changed_.notify_all();
  }
  // From now on each step that samples waits for an end_step() of the test.
  void hold_steps() {
    const std::lock_guard lock(mutex_);
    enqueued_ = 0;
    may_end_ = 0;
  }
  void end_step() {
    const std::lock_guard lock(mutex_);
    ++may_end_;
    changed_.notify_all();
  }
  void let_go_steps() {
    const std::lock_guard lock(mutex_);
    may_end_ = kAll;
    changed_.notify_all();
  }
  // Number of steps enqueued since hold_steps().
  std::int64_t num_enqueued() const {
    const std::lock_guard lock(mutex_);
    return enqueued_;
  }
  // Waits until `count` steps are enqueued; returns false after `longest`.
  bool wait_enqueued(std::int64_t count,
                     std::chrono::milliseconds longest = std::chrono::seconds(60)) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, longest, [&] { return enqueued_ >= count; });
  }
  std::int64_t done() const {
    const std::lock_guard lock(mutex_);
    return done_;
  }
  bool timed_out() const {
    const std::lock_guard lock(mutex_);
    return timed_out_;
  }

  // The functions below are for the streams.
  void count() {
    std::unique_lock lock(mutex_);
    wait(lock, [&] { return !held_; });
    ++done_;
    changed_.notify_all();
  }
  void pass(bool b_part) {
    std::unique_lock lock(mutex_);
    wait(lock, [&] { return done_ >= (b_part ? b_at_ : at_); });
  }
  std::int64_t enqueue_step() {  // returns its number
    const std::lock_guard lock(mutex_);
    changed_.notify_all();
    return ++enqueued_;
  }
  void pass_step(std::int64_t number) {
    std::unique_lock lock(mutex_);
    wait(lock, [&] { return number <= may_end_; });
  }
  bool in_b_parts() const {
    const std::lock_guard lock(mutex_);
    return num_b_ > 0;
  }
  void note_recorded(const Event& event) {  // ends a piece unless the event only measures time
    const std::lock_guard lock(mutex_);
    if (num_b_ > 0 && !timers_.contains(&event)) --num_b_;
  }
  void note_timer(const Event& event) {
    const std::lock_guard lock(mutex_);
    timers_.insert(&event);
  }

 private:
  template <typename Condition>
  void wait(std::unique_lock<std::mutex>& lock, Condition condition) {
    if (!changed_.wait_for(lock, std::chrono::seconds(60), condition)) timed_out_ = true;
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::int64_t done_ = 0;
  std::int64_t at_ = kOpen;
  std::int64_t b_at_ = kOpen;
  std::int64_t num_b_ = 0;
  std::int64_t enqueued_ = 0;
  std::int64_t may_end_ = kAll;
  std::set<const Event*> timers_;
  bool held_ = false;
  bool timed_out_ = false;
};

class GatedStream final : public Stream {
 public:
  enum class Role { load, compute, other };
  GatedStream(std::unique_ptr<Stream> inner, LoadGate& gate, Role role)
      : inner_(std::move(inner)), gate_(gate), role_(role) {}

  Status synchronize() override { return inner_->synchronize(); }
  bool failed() const override { return inner_->failed(); }
  void record(Event& event) override {
    pass();
    inner_->record(event);
    if (role_ == Role::load) gate_.note_recorded(event);
  }
  void wait(Event& event) override { inner_->wait(event); }
  void copy_to_device(void* device, const void* host, std::size_t bytes) override {
    pass();
    inner_->copy_to_device(device, host, bytes);
    count();
  }
  void copy_to_host(void* host, const void* device, std::size_t bytes) override {
    inner_->copy_to_host(host, device, bytes);
    count();
    end_step();
  }
  Status begin_recording() override { return inner_->begin_recording(); }
  Result<std::unique_ptr<Graph>> end_recording() override { return inner_->end_recording(); }
  void launch(Graph& graph) override {
    inner_->launch(graph);
    count();
  }
  void plan_attention(const AttentionPlan& plan) override { inner_->plan_attention(plan); }
  void resolve_tokens(const ResolveTokensArgs& args) override {
    inner_->resolve_tokens(args);
    count();
  }
  void embed(const EmbedArgs& args) override {
    inner_->embed(args);
    count();
  }
  void rms_norm(const RmsNormArgs& args) override {
    inner_->rms_norm(args);
    count();
  }
  void sum_squares(const SumSquaresArgs& args) override {
    inner_->sum_squares(args);
    count();
  }
  void add_norm(const AddNormArgs& args) override {
    inner_->add_norm(args);
    count();
  }
  void gemm(const GemmArgs& args) override {
    inner_->gemm(args);
    count();
  }
  void rotary_angles(const RotaryAnglesArgs& args) override {
    inner_->rotary_angles(args);
    count();
  }
  void rope_append(const RopeAppendArgs& args) override {
    inner_->rope_append(args);
    count();
  }
  void attention(const AttentionArgs& args) override {
    inner_->attention(args);
    count();
  }
  void swiglu(const SwigluArgs& args) override {
    inner_->swiglu(args);
    count();
  }
  void scale_logits(const ScaleLogitsArgs& args) override {
    inner_->scale_logits(args);
    count();
  }
  void gather_rows(const GatherRowsArgs& args) override {
    inner_->gather_rows(args);
    count();
  }
  void all_reduce(const AllReduceArgs& args) override {
    inner_->all_reduce(args);
    count();
  }
  void all_gather(const AllGatherArgs& args) override {
    inner_->all_gather(args);
    count();
  }
  void lora(const LoraArgs& args) override {
    inner_->lora(args);
    count();
  }
  void offer(const OfferArgs& args) override {
    inner_->offer(args);
    count();
  }
  void accept(const AcceptArgs& args) override {
    inner_->accept(args);
    count();
  }
  void sample(const SampleArgs& args) override {
    inner_->sample(args);
    count();
  }
  void set_flag(std::uint32_t* flag, std::uint32_t value, std::int32_t count) override {
    pass();
    inner_->set_flag(flag, value, count);
  }
  void wait_flag(const std::uint32_t* flag, std::uint32_t value) override {
    inner_->wait_flag(flag, value);
  }

 private:
  host::HostStream& host() { return dynamic_cast<host::HostStream&>(*inner_); }
  void pass() {
    if (role_ != Role::load) return;
    const bool b_part = gate_.in_b_parts();
    host().run("gate", [this, b_part] { gate_.pass(b_part); });
  }
  // A step's last copy to the host is that of its samples.
  void end_step() {
    if (role_ != Role::compute) return;
    const std::int64_t number = gate_.enqueue_step();
    host().run("step", [this, number] { gate_.pass_step(number); });
  }
  void count() {
    if (role_ == Role::compute) host().run("count", [this] { gate_.count(); });
  }

  std::unique_ptr<Stream> inner_;
  LoadGate& gate_;
  Role role_;
};

class GatedDevice final : public PoisonedDevice {
 public:
  explicit GatedDevice(double link_gbps = 0) : PoisonedDevice(1, link_gbps) {}

  LoadGate& gate() { return gate_; }

  std::unique_ptr<Event> create_timed_event() override {
    std::unique_ptr<Event> event = PoisonedDevice::create_timed_event();
    gate_.note_timer(*event);
    return event;
  }
  Result<std::unique_ptr<Stream>> create_stream(std::string_view name) override {
    TANDEM_ASSIGN(auto stream, PoisonedDevice::create_stream(name));
    const auto role = name == "adapter load" ? GatedStream::Role::load
                      : name == "compute"    ? GatedStream::Role::compute
                                             : GatedStream::Role::other;
    return std::unique_ptr<Stream>(std::make_unique<GatedStream>(std::move(stream), gate_, role));
  }

 private:
  LoadGate gate_;
};

}  // namespace tandem::test
