#include "gpu/host/host_stream.h"

#include <pthread.h>

#include <cstring>
#include <exception>
#include <new>

#include "base/check.h"
#include "gpu/check_args.h"
#include "gpu/host/context/host_communicator.h"
#include "gpu/host/host_event.h"
#include "gpu/host/ops/operations.h"

namespace tandem::host {

HostStream::HostStream(std::string_view name, ThreadPool& pool, MatmulCache& matmuls,
                       LinkPacer& link)
    : name_(name), link_(link) {
  context_.pool = &pool;
  context_.matmuls = &matmuls;
  context_.native_bf16 = has_fast_bf16_matmul();
  context_.workers = std::vector<WorkerScratch>(static_cast<std::size_t>(pool.num_threads()));
  thread_ = std::thread([this] { loop(); });
}

HostStream::~HostStream() {
  // relaxed: wait_flag depends on this value alone
  stopping_.store(true, std::memory_order_relaxed);
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  queued_.notify_one();
  thread_.join();
}

void HostStream::enqueue(Operation operation) {
  if (recording_ != nullptr) {
    recording_->operations.push_back(std::move(operation));
    return;
  }
  {
    std::unique_lock lock(mutex_);
    advanced_.wait(lock, [&] { return queue_.size() < kMaxQueued; });
    queue_.push_back(std::move(operation));
  }
  queued_.notify_one();
}

void HostStream::loop() {
  pthread_setname_np(pthread_self(), name_.substr(0, 15).c_str());
  context_.pool->prepare_caller();
  std::unique_lock lock(mutex_);
  while (true) {
    queued_.wait(lock, [&] { return stop_ || !queue_.empty(); });
    if (queue_.empty()) return;
    Operation operation = std::move(queue_.front());
    queue_.pop_front();
    const bool skip = !failure_.ok() && !operation.always;
    running_ = true;
    lock.unlock();
    Status status;
    try {
      if (!skip) operation.body();
    } catch (...) {
      status = status_of_exception(operation.what);
    }
    operation.body = nullptr;
    lock.lock();
    running_ = false;
    if (!status.ok() && failure_.ok()) failure_ = std::move(status);
    advanced_.notify_all();
  }
}

// The status for the exception that is being handled.
Status HostStream::status_of_exception(const char* what) const noexcept {
  try {
    try {
      throw;
    } catch (const std::bad_alloc&) {
      return error(StatusCode::resource_exhausted, "{} on stream {}: out of memory", what, name_);
    } catch (const MeetingFailed& failure) {
      return error(StatusCode::cancelled, "{} on stream {}: {}", what, name_, failure.what());
    } catch (const std::exception& failure) {
      return error(StatusCode::internal, "{} on stream {}: {}", what, name_, failure.what());
    } catch (...) {
      return error(StatusCode::internal, "{} on stream {}: unknown failure", what, name_);
    }
  } catch (...) {  // no memory for the text either; this one is short enough to need none
    return {StatusCode::resource_exhausted, "out of memory"};
  }
}

Status HostStream::synchronize() {
  std::unique_lock lock(mutex_);
  advanced_.wait(lock, [&] { return queue_.empty() && !running_; });
  return std::exchange(failure_, Status());
}

bool HostStream::failed() const {
  const std::lock_guard lock(mutex_);
  return !failure_.ok();
}

void HostStream::run(const char* what, std::function<void()> body) {
  enqueue({what, false, std::move(body)});
}

void HostStream::record(Event& event) {
  const auto& state = dynamic_cast<HostEvent&>(event).state();
  const std::uint64_t ticket = state->take_ticket();
  try {
    enqueue({"record", true, [state, ticket] { state->pass(ticket); }});
  } catch (...) {
    state->give_back(ticket);
    throw;
  }
}

void HostStream::wait(Event& event) {
  auto state = dynamic_cast<HostEvent&>(event).state();
  const std::uint64_t ticket = state->last_ticket();
  if (state->passed(ticket)) return;
  enqueue({"wait", true, [state = std::move(state), ticket] { state->wait_for(ticket); }});
}

Status HostStream::begin_recording() {
  TANDEM_CHECK(recording_ == nullptr, "stream {} already records", name_);
  recording_ = std::make_unique<HostGraph>();
  return {};
}

Result<std::unique_ptr<Graph>> HostStream::end_recording() {
  TANDEM_CHECK(recording_ != nullptr, "stream {} does not record", name_);
  return std::unique_ptr<Graph>(std::move(recording_));
}

void HostStream::launch(Graph& graph) {
  for (const Operation& operation : dynamic_cast<HostGraph&>(graph).operations) enqueue(operation);
}

void HostStream::copy_to_device(void* device, const void* host, std::size_t bytes) {
  enqueue({"copy_to_device", false,
           [this, device, host, bytes] { copy_over_link(link_, device, host, bytes); }});
}

void HostStream::copy_rows_to_device(void* device, const void* host, std::size_t row_bytes,
                                     std::size_t host_pitch, std::size_t rows) {
  enqueue({"copy_rows_to_device", false, [this, device, host, row_bytes, host_pitch, rows] {
             for (std::size_t row = 0; row < rows; ++row) {
               copy_over_link(link_, static_cast<std::byte*>(device) + row * row_bytes,
                              static_cast<const std::byte*>(host) + row * host_pitch, row_bytes);
             }
           }});
}

void HostStream::upload(void* device, const void* pinned, std::size_t bytes) {
  enqueue({"upload", false, [device, pinned, bytes] {
             if (bytes > 0) std::memcpy(device, pinned, bytes);
           }});
}

void HostStream::copy_to_host(void* host, const void* device, std::size_t bytes) {
  enqueue({"copy_to_host", false, [host, device, bytes] {
             if (bytes > 0) std::memcpy(host, device, bytes);
           }});
}

template <typename Args>
void HostStream::enqueue_args(const char* what, void (*operation)(OpContext&, const Args&),
                              const Args& args) {
  check_args(args);
  enqueue({what, false, [this, operation, args] { operation(context_, args); }});
}

void HostStream::resolve_tokens(const ResolveTokensArgs& args) {
  enqueue({"resolve_tokens", false, [args] {
             for (std::int32_t i = 0; i < args.count; ++i) {
               std::int32_t& value = args.values[i];
               if (value < 0) value = args.previous[-1 - value].token;
             }
           }});
}
void HostStream::embed(const EmbedArgs& args) {
  enqueue_args("embed", host::embed, args);
}
void HostStream::rms_norm(const RmsNormArgs& args) {
  enqueue_args("rms_norm", host::rms_norm, args);
}
void HostStream::sum_squares(const SumSquaresArgs& args) {
  enqueue_args("sum_squares", host::sum_squares, args);
}
void HostStream::add_norm(const AddNormArgs& args) {
  enqueue_args("add_norm", host::add_norm, args);
}
void HostStream::gemm(const GemmArgs& args) {
  enqueue_args("gemm", host::gemm, args);
}
void HostStream::rotary_angles(const RotaryAnglesArgs& args) {
  enqueue_args("rotary_angles", host::rotary_angles, args);
}
void HostStream::rope_append(const RopeAppendArgs& args) {
  enqueue_args("rope_append", host::rope_append, args);
}
void HostStream::attention(const AttentionArgs& args) {
  enqueue_args("attention", host::attention, args);
}
void HostStream::swiglu(const SwigluArgs& args) {
  enqueue_args("swiglu", host::swiglu, args);
}
void HostStream::scale_logits(const ScaleLogitsArgs& args) {
  enqueue_args("scale_logits", host::scale_logits, args);
}
void HostStream::gather_rows(const GatherRowsArgs& args) {
  enqueue_args("gather_rows", host::gather_rows, args);
}
void HostStream::lora(const LoraArgs& args) {
  enqueue_args("lora", host::lora, args);
}
void HostStream::sample(const SampleArgs& args) {
  enqueue_args("sample", host::sample, args);
}

// Other ranks wait for this operation, so after a failure the stream cancels their wait.
template <typename Args>
void HostStream::enqueue_meeting(const char* what, void (*operation)(OpContext&, const Args&),
                                 const Args& args) {
  check_args(args);
  enqueue({what, true, [this, what, operation, args] {
             auto& end = dynamic_cast<HostCommunicator&>(*args.communicator);
             if (failed()) {
               end.leave(what);
             } else {
               operation(context_, args);
             }
           }});
}
void HostStream::all_reduce(const AllReduceArgs& args) {
  enqueue_meeting("all_reduce", host::all_reduce, args);
}
void HostStream::all_gather(const AllGatherArgs& args) {
  enqueue_meeting("all_gather", host::all_gather, args);
}

void HostStream::offer(const OfferArgs& args) {
  enqueue_args("offer", host::offer, args);
}
void HostStream::accept(const AcceptArgs& args) {
  enqueue_args("accept", host::accept, args);
}
void HostStream::set_flag(std::uint32_t* flag, std::uint32_t value, std::int32_t count) {
  enqueue({"set_flag", false, [flag, value, count] { host::set_flag(flag, value, count); }});
}
void HostStream::wait_flag(const std::uint32_t* flag, std::uint32_t value) {
  enqueue({"wait_flag", false, [this, flag, value] { host::wait_flag(flag, value, stopping_); }});
}

}  // namespace tandem::host
