// The device interface: all that the engine asks of the hardware. gpu/host implements it on the
// CPU, gpu/cuda on CUDA GPUs; every CUDA operation has its host operation as twin and judge.
//
// Operations are enqueued on a Stream and run in its order; nothing here waits but
// Stream::synchronize and Event::synchronize. Operands are views of memory that the caller keeps
// alive, and unchanged, until the stream has passed them. Row-major throughout; "compute dtype" is
// the model's f32, f16 or bf16; all accumulation is in float. Shapes that do not fit are bugs of
// the caller (TANDEM_CHECK), not inputs: files and requests are checked before they come here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/tensor.h"
#include "gpu/communicator.h"
#include "gpu/ops.h"

namespace tandem {

struct DeviceInfo {
  std::string name;              // "host: 2 threads, avx512", "NVIDIA H200"
  std::size_t memory_bytes = 0;  // total, in the device's own memory
  bool is_cuda = false;
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
  // The CPU may read and write data() directly (while no stream uses it).
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
  // Seconds from when `earlier` passed to when this one did. Both have, and are of one device's
  // create_timed_event(); of others 0.
  virtual double seconds_since(const Event& earlier) const = 0;
};

// Operations recorded by a stream, to be enqueued again and again as one. The arguments are those
// of the recording; what their pointers point to may have changed. Outlives its launches.
class Graph {
 public:
  virtual ~Graph() = default;
};

// What a stream computes: the operations of a Llama-family layer, which ops.h explains one by one.
class Operations {
 public:
  virtual ~Operations() = default;

  virtual void resolve_tokens(const ResolveTokensArgs& args) = 0;
  virtual void embed(const EmbedArgs& args) = 0;
  virtual void rms_norm(const RmsNormArgs& args) = 0;
  virtual void gemm(const GemmArgs& args) = 0;
  virtual void rope_append(const RopeAppendArgs& args) = 0;
  // Holds for the attention operations that are enqueued after it, until the next plan.
  virtual void plan_attention(const AttentionPlan& plan) = 0;
  virtual void attention(const AttentionArgs& args) = 0;
  virtual void swiglu(const SwigluArgs& args) = 0;
  virtual void gemm_swiglu(const GemmSwigluArgs& args) {
    gemm({args.x, args.w, {}, args.gate_up});
    swiglu({args.gate_up, args.out});
  }
  virtual void gather_rows(const GatherRowsArgs& args) = 0;
  virtual void lora(const LoraArgs& args) = 0;
  virtual void offer(const OfferArgs& args) = 0;
  virtual void accept(const AcceptArgs& args) = 0;
  virtual void sample(const SampleArgs& args) = 0;
  virtual void all_reduce(const AllReduceArgs& args) = 0;
  virtual void all_gather(const AllGatherArgs& args) = 0;

  // At a start, before any recording: finds by measurement how this stream best computes products
  // that differ from `like` in their number of rows, up to like.front().x.rows() or as far as
  // measuring helps, and in where their operands lie. The calls of `like` differ in w alone;
  // together their weights should be more than the device caches, as a model's are. Overwrites
  // their y; waits. Results may then differ in rounding from those of another start. A device need
  // not have a choice.
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
  // Blocks the calling thread until all that was enqueued has run; a failure of any of it is
  // returned here, once, and names the operation.
  virtual Status synchronize() = 0;
  // Whether an operation has failed since the last synchronize(): asked after an event of this
  // stream has passed, it covers all before the event. Never blocks.
  virtual bool failed() const = 0;

  // Makes now what operations keep between calls, and is else made at the first of them. Of a rank
  // whose operations others will wait for: on a GPU memory may not come while one of them waits.
  virtual Status prepare() { return {}; }

  // Asynchronous copies. `host` memory should come from Device::allocate_pinned. A copy_to_device
  // takes as long as over a link of the speed that the device was made with, if it was given one.
  virtual void copy_to_device(void* device, const void* host, std::size_t bytes) = 0;
  virtual void copy_to_host(void* host, const void* device, std::size_t bytes) = 0;
  // `rows` rows of `row_bytes`, `host_pitch` bytes apart on the host, one after another on the
  // device.
  virtual void copy_rows_to_device(void* device, const void* host, std::size_t row_bytes,
                                   std::size_t host_pitch, std::size_t rows) {
    for (std::size_t row = 0; row < rows; ++row) {
      copy_to_device(static_cast<std::byte*>(device) + row * row_bytes,
                     static_cast<const std::byte*>(host) + row * host_pitch, row_bytes);
    }
  }
  // The same for little that a step cannot wait for, such as its input: it does not queue behind
  // copies of other streams, as a copy_to_device may, and is never throttled. `pinned` is of
  // Device::allocate_pinned.
  virtual void upload(void* device, const void* pinned, std::size_t bytes) {
    copy_to_device(device, pinned, bytes);
  }

  // Words that tell other streams how far this one is. set_flag: flag[0 .. count) = value in device
  // memory, after all before it; an offer of another stream that reads the value sees all of that.
  // wait_flag: what comes after it runs once *flag == value, in pinned host memory, written by the
  // CPU with release order; whoever writes it must not forget to. A stream that is destroyed waits
  // no longer: what comes after the wait is then skipped, or runs too early.
  virtual void set_flag(std::uint32_t* flag, std::uint32_t value, std::int32_t count) = 0;
  virtual void wait_flag(const std::uint32_t* flag, std::uint32_t value) = 0;

  // Between these two, operations are recorded instead of run. Copies, events and plan_attention
  // do not belong into a recording. The recording's resources come from `Device`, beforehand: a
  // first launch costs no more than a later one.
  virtual Status begin_recording() = 0;
  virtual Result<std::unique_ptr<Graph>> end_recording() = 0;
  virtual void launch(Graph& graph) = 0;
};

// Thread-safe.
class Device {
 public:
  virtual ~Device() = default;

  virtual const DeviceInfo& info() const = 0;
  // `purpose` names the memory in the error when there is not enough. Contents are undefined.
  virtual Result<Buffer> allocate(std::size_t bytes, std::string_view purpose) = 0;
  // Host memory that asynchronous copies can read and write; always host_visible().
  virtual Result<Buffer> allocate_pinned(std::size_t bytes, std::string_view purpose) = 0;
  // Makes memory that the caller owns (a shared-memory region) as good for asynchronous copies as
  // allocate_pinned's, until the Buffer goes; the memory outlives it. Page-aligned. Operations may
  // read and write it at this same address (mailboxes).
  virtual Result<Buffer> pin(std::byte* data, std::size_t bytes, std::string_view purpose) = 0;
  virtual std::size_t free_bytes() const = 0;  // of the device's own memory, now
  virtual Result<std::unique_ptr<Stream>> create_stream(std::string_view name) = 0;
  virtual std::unique_ptr<Event> create_event() = 0;
  // One that takes the device's time: it costs the stream more.
  virtual std::unique_ptr<Event> create_timed_event() = 0;
  // Threads of its own that work beside its operations, if it has any, run on these cpus alone from
  // now on.
  virtual void keep_to(std::span<const int> /*cpus*/) {}
  // Makes a group of `devices`, the first of which is this one, all of its kind; the ends in the
  // order of their ranks. A failure where devices of this kind cannot work together.
  virtual Result<std::vector<std::unique_ptr<Communicator>>> connect(
      std::span<Device* const> devices) = 0;
};

}  // namespace tandem
