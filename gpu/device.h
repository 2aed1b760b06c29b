// The device interface: everything that the engine needs of the hardware. gpu/host implements it on
// the CPU, gpu/cuda on CUDA GPUs. Tests compare every CUDA operation with the host's.
//
// Operations are enqueued on a Stream and run in its order; only Stream::synchronize and
// Event::synchronize block. Operands are views of memory that the caller keeps alive and unchanged
// until the stream has passed them. Tensors are row-major; "compute dtype" is the model's f32, f16
// or bf16; accumulation is in float. Shapes that do not match are bugs of the caller
// (TANDEM_CHECK), not input errors: files and requests are checked before they reach this code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/tensor.h"
#include "gpu/communicator.h"
#include "gpu/ops.h"
#include "gpu/weight.h"

namespace tandem {

struct DeviceInfo {
  std::string name;              // "host: 2 threads, avx512", "NVIDIA H200"
  std::size_t memory_bytes = 0;  // total, in the device's own memory
  bool is_cuda = false;
  // What Stream::lora takes.
  std::int32_t max_lora_rank = 2048;
};

// Owns device memory; move-only. 64-byte aligned or better.
class Buffer {
 public:
  Buffer() = default;
  Buffer(std::byte* data, std::size_t bytes, bool host_visible,
         void (*release)(std::byte*, std::size_t))
      : data_(data), bytes_(bytes), host_visible_(host_visible), release_(release) {}
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer(std::move(other)).swap(*this);
    return *this;
  }
  ~Buffer() {
    if (data_ != nullptr) release_(data_, bytes_);
  }

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  // True if the CPU may read and write data() directly (while no stream uses it).
  bool host_visible() const { return host_visible_; }

 private:
  void swap(Buffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(host_visible_, other.host_visible_);
    std::swap(release_, other.release_);
  }

  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  bool host_visible_ = false;
  void (*release_)(std::byte*, std::size_t) = nullptr;
};

// A point in a stream's order. Created unrecorded, which counts as passed. Thread-safe.
class Event {
 public:
  virtual ~Event() = default;
  virtual bool passed() const = 0;
  virtual void synchronize() = 0;  // blocks the calling thread until passed()
  // Seconds from `earlier` passing to this event passing. Both must have passed and come from
  // create_timed_event() of the same device; for other events the result is 0.
  virtual double seconds_since(const Event& earlier) const = 0;
};

// Operations that a stream has recorded, to be launched any number of times as one. Arguments are
// fixed at recording time; the memory that they point to may change. Outlives its launches.
class Graph {
 public:
  virtual ~Graph() = default;
};

// The operations of a decoder's layers; ops.h explains them one by one.
class Operations {
 public:
  virtual ~Operations() = default;

  virtual void resolve_tokens(const ResolveTokensArgs& args) = 0;
  virtual void embed(const EmbedArgs& args) = 0;
  virtual void rms_norm(const RmsNormArgs& args) = 0;
  virtual void sum_squares(const SumSquaresArgs& args) = 0;
  virtual void add_norm(const AddNormArgs& args) = 0;
  virtual void gemm(const GemmArgs& args) = 0;
  virtual void rotary_angles(const RotaryAnglesArgs& args) = 0;
  virtual void rope_append(const RopeAppendArgs& args) = 0;
  // Holds for the attention operations with these heads (their number, KV heads and size) that are
  // enqueued after it, until the next plan of such heads or of kAttentionPlans other shapes.
  // Without a plan, attention is right but slow.
  virtual void plan_attention(const AttentionPlan& plan) = 0;
  virtual void attention(const AttentionArgs& args) = 0;
  virtual void swiglu(const SwigluArgs& args) = 0;
  virtual void gemm_swiglu(const GemmSwigluArgs& args) {
    gemm({args.x, args.w, {}, args.gate_up});
    swiglu({args.gate_up, args.out, args.activation});
  }
  virtual void scale_logits(const ScaleLogitsArgs& args) = 0;
  virtual void gather_rows(const GatherRowsArgs& args) = 0;
  virtual void lora(const LoraArgs& args) = 0;
  virtual void offer(const OfferArgs& args) = 0;
  virtual void accept(const AcceptArgs& args) = 0;
  virtual void sample(const SampleArgs& args) = 0;
  virtual void all_reduce(const AllReduceArgs& args) = 0;
  virtual void all_gather(const AllGatherArgs& args) = 0;

  // Called at startup, before any recording. Measures how this stream best computes products that
  // differ from `like` in their number of rows (up to like.front().x.rows(), or as far as measuring
  // helps) and in the addresses of their operands. The calls of `like` differ in w only; together,
  // their weights should exceed the device's caches, as a model's do. Overwrites their y; blocks.
  // Results may then differ in rounding from those of another start. Devices without alternatives
  // do nothing.
  virtual Status tune_gemm(std::span<const GemmArgs> like) {
    (void)like;
    return {};
  }
};

// An ordered queue of operations, copies and flags. One thread at a time enqueues on a stream.
class Stream : public Operations {
 public:
  virtual void record(Event& event) = 0;
  virtual void wait(Event& event) = 0;  // later operations of this stream run after `event`
  // Blocks the calling thread until everything enqueued has run. If any operation failed, returns
  // that failure, once; its message names the operation.
  virtual Status synchronize() = 0;
  // True if an operation has failed since the last synchronize(). When asked after an event of this
  // stream has passed, the answer covers everything before the event. Never blocks.
  virtual bool failed() const = 0;

  // Allocates now the state that operations otherwise allocate at their first call. Ranks whose
  // operations others wait for need this: a GPU may be unable to allocate while one of them waits.
  virtual Status prepare() { return {}; }

  // Asynchronous copies. `host` memory should come from Device::allocate_pinned. If the device was
  // given a link speed, a copy_to_device takes as long as over a link of that speed.
  virtual void copy_to_device(void* device, const void* host, std::size_t bytes) = 0;
  virtual void copy_to_host(void* host, const void* device, std::size_t bytes) = 0;
  // Copies `rows` rows of `row_bytes` each. They start `host_pitch` bytes apart on the host and lie
  // contiguously on the device.
  virtual void copy_rows_to_device(void* device, const void* host, std::size_t row_bytes,
                                   std::size_t host_pitch, std::size_t rows) {
    for (std::size_t row = 0; row < rows; ++row) {
      copy_to_device(static_cast<std::byte*>(device) + row * row_bytes,
                     static_cast<const std::byte*>(host) + row * host_pitch, row_bytes);
    }
  }
  // Like copy_to_device, for small data that a step cannot wait for, such as its input: it does not
  // queue behind copies of other streams, as a copy_to_device may, and is never throttled. `pinned`
  // comes from Device::allocate_pinned.
  virtual void upload(void* device, const void* pinned, std::size_t bytes) {
    copy_to_device(device, pinned, bytes);
  }
  // Rewrites a packed weight's arrays in place, as this device's products read them fastest, and
  // sets weight.arranged; blocks until that is done. Whoever loads a model calls it once for each
  // packed weight, after its copies and before its first use. Copies of `weight` from before are
  // invalid then, and no rows can be cut out. After an error the arrays are undefined. Operations
  // take weights that are arranged and those that are not; devices without a layout of their own do
  // nothing.
  virtual Status arrange(Weight& weight) {
    (void)weight;
    return {};
  }

  // Flags: words that show other streams how far this one is. set_flag: flag[0 .. count) = value in
  // device memory, after all earlier operations; an offer on another stream that reads the value
  // sees their effects. wait_flag: later operations run once *flag == value, in pinned host memory;
  // the CPU must write it, with release order. Destroying a stream ends its waits: the operations
  // after such a wait are then skipped, or run too early.
  virtual void set_flag(std::uint32_t* flag, std::uint32_t value, std::int32_t count) = 0;
  virtual void wait_flag(const std::uint32_t* flag, std::uint32_t value) = 0;

  // Between these two calls, operations are recorded instead of run. Copies, events and
  // plan_attention must not be recorded. The recording's resources are allocated in advance from
  // `Device`, so that a first launch costs no more than a later one.
  virtual Status begin_recording() = 0;
  virtual Result<std::unique_ptr<Graph>> end_recording() = 0;
  virtual void launch(Graph& graph) = 0;
};

// Thread-safe.
class Device {
 public:
  virtual ~Device() = default;

  virtual const DeviceInfo& info() const = 0;
  // `purpose` names the memory in the out-of-memory error. The contents are undefined.
  virtual Result<Buffer> allocate(std::size_t bytes, std::string_view purpose) = 0;
  // Host memory for asynchronous copies in both directions; always host_visible().
  virtual Result<Buffer> allocate_pinned(std::size_t bytes, std::string_view purpose) = 0;
  // Makes page-aligned memory that the caller owns (a shared-memory region) as good for
  // asynchronous copies as allocate_pinned's, for the lifetime of the Buffer, which the memory must
  // outlive. Operations may read and write it at the same address (mailboxes).
  virtual Result<Buffer> pin(std::byte* data, std::size_t bytes, std::string_view purpose) = 0;
  virtual std::size_t free_bytes() const = 0;  // free memory of the device itself, now
  // True if weights [rows, cols] of this form are worth keeping packed, for inputs of `x`: its
  // streams read them at least as fast as dense ones. The loader converts others to dense weights.
  virtual bool keeps_packed(const WeightForm&, std::int64_t /*rows*/, std::int64_t /*cols*/,
                            DType /*x*/) const {
    return false;
  }
  // The largest attention head that its streams compute (AttentionArgs::q).
  virtual std::int64_t max_head_dim() const { return std::numeric_limits<std::int64_t>::max(); }
  virtual Result<std::unique_ptr<Stream>> create_stream(std::string_view name) = 0;
  virtual std::unique_ptr<Event> create_event() = 0;
  // Like create_event(), but with the device's time; recording it costs the stream more.
  virtual std::unique_ptr<Event> create_timed_event() = 0;
  // From now on, restricts the device's helper threads, if it has any, to these CPUs. Helper
  // threads work beside the operations.
  virtual void keep_to(std::span<const int> /*cpus*/) {}
  // Makes a group of `devices`, all of the same kind; the first one must be this device. Returns
  // one end for each rank, in rank order. Fails if devices of this kind cannot work together.
  virtual Result<std::vector<std::unique_ptr<Communicator>>> connect(
      std::span<Device* const> devices) = 0;
};

}  // namespace tandem
