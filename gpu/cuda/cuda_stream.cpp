#include "gpu/cuda/cuda_stream.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include "base/check.h"
#include "gpu/check_args.h"
#include "gpu/cuda/base/cuda_status.h"
#include "gpu/cuda/base/upload.h"
#include "gpu/cuda/cuda_event.h"
#include "gpu/cuda/elementwise/elementwise.h"
#include "gpu/cuda/handoff/flags.h"
#include "gpu/cuda/lora/lora.h"
#include "gpu/cuda/packed/unpack.h"

namespace tandem::cuda {
namespace {

class CudaGraph final : public Graph {
 public:
  explicit CudaGraph(cudaGraphExec_t handle) : handle_(handle) {}
  ~CudaGraph() override { (void)cudaGraphExecDestroy(handle_); }
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;

  cudaGraphExec_t handle() const { return handle_; }

 private:
  cudaGraphExec_t handle_;
};

// Relaxed: only the value matters.
bool is_set(const std::uint32_t* flag, std::uint32_t value) {
  return std::atomic_ref(const_cast<std::uint32_t&>(*flag)).load(std::memory_order_relaxed) ==
         value;
}

}  // namespace

cudaError_t use_gpu(int gpu) {
  // The current GPU is queried each time, because a library or the thread's owner may have changed
  // it. The query takes about ten nanoseconds and is allowed while a stream records.
  int current = -1;
  if (cudaGetDevice(&current) == cudaSuccess && current == gpu) return cudaSuccess;
  return cudaSetDevice(gpu);
}

Result<std::unique_ptr<CudaStream>> CudaStream::create(int gpu, std::string_view name,
                                                       PacedLink* link) {
  std::unique_ptr<CudaStream> stream(new CudaStream(gpu, name, link));
  TANDEM_TRY(cuda_status(use_gpu(gpu), "cudaSetDevice"));
  TANDEM_TRY(cuda_status(cudaStreamCreateWithFlags(&stream->handle_, cudaStreamNonBlocking),
                         fmt::format("creating stream {}", name)));
  if (link != nullptr) {
    TANDEM_ASSIGN(stream->lane_, link->make_lane());
  }
  TANDEM_TRY(cuda_status(
      cudaEventCreateWithFlags(&stream->done_, cudaEventDisableTiming | cudaEventBlockingSync),
      fmt::format("creating the event of stream {}", name)));
  return stream;
}

CudaStream::~CudaStream() {
  (void)use_gpu(gpu_);
  if (handle_ != nullptr) {
    stop_waiting();
    (void)cudaStreamSynchronize(handle_);
    (void)cudaStreamDestroy(handle_);
  }
  if (done_ != nullptr) (void)cudaEventDestroy(done_);
}

// The driver cannot cancel a stream's waits. Instead, each word in turn is set to the value waited
// for until the stream has passed them all; then the words are restored. Operations after a wait
// run.
void CudaStream::stop_waiting() {
  const auto runs = [&] { return forget_not_ready(cudaStreamQuery(handle_)) == cudaErrorNotReady; };
  std::vector<FlagWait> held;
  while (!flag_waits_.empty() && runs()) {
    for (const FlagWait& wait : flag_waits_) {
      std::atomic_ref word(const_cast<std::uint32_t&>(*wait.flag));
      const std::uint32_t old = word.exchange(wait.value, std::memory_order_relaxed);
      const bool known = std::any_of(
          held.begin(), held.end(), [&](const FlagWait& other) { return other.flag == wait.flag; });
      if (!known) held.push_back({wait.flag, old});
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }
  for (const FlagWait& wait : held) {
    std::atomic_ref(const_cast<std::uint32_t&>(*wait.flag))
        .store(wait.value, std::memory_order_relaxed);
  }
}

Status CudaStream::prepare() {
  if (prepared_) return {};
  TANDEM_TRY(cuda_status(use_gpu(gpu_), "cudaSetDevice"));
  TANDEM_ASSIGN(workspaces_.attention, Attention::create());
  TANDEM_ASSIGN(workspaces_.gemm, Gemm::create());
  TANDEM_ASSIGN(workspaces_.handoff, Handoff::create());
  TANDEM_ASSIGN(workspaces_.sampler, Sampler::create());
  prepared_ = true;
  return {};
}

template <typename Body>
void CudaStream::enqueue(const char* what, Body&& body) {
  if (has_failure_.load(std::memory_order_relaxed)) return;
  last_ = what;
  Status status = cuda_status(use_gpu(gpu_), "cudaSetDevice");
  if (status) status = body();
  if (!status) fail(what, status);
}

void CudaStream::fail(const char* what, const Status& status) {
  const std::lock_guard lock(mutex_);
  if (failure_.ok()) failure_ = fatal(what, status);
  has_failure_ = true;
  if (CudaCommunicator* const end = communicator_) end->leave(what);
}

// After an earlier failure, cancels the waits of the other ranks instead of taking part.
template <typename Body>
void CudaStream::enqueue_meeting(const char* what, Communicator& communicator, Body&& body) {
  auto& end = dynamic_cast<CudaCommunicator&>(communicator);
  communicator_ = &end;
  if (has_failure_) return end.leave(what);
  enqueue(what, [&] { return body(end); });
}

Status CudaStream::fatal(const char* what, const Status& status) const {
  if (status.ok()) return status;
  (void)cudaGetLastError();  // reported here; a lost context keeps returning it
  return error(StatusCode::fatal, "{} on GPU stream {}: {}", what, name_, status.message());
}

Status CudaStream::asynchronous_failure(cudaError_t code) const {
  return error(StatusCode::fatal,
               "GPU stream {} failed, in '{}' or an operation before it: {} ({}). With "
               "CUDA_LAUNCH_BLOCKING=1 the message names the operation",
               name_, last_, cudaGetErrorString(code), cudaGetErrorName(code));
}

Status CudaStream::synchronize() {
  TANDEM_CHECK(!recording_, "stream {} records", name_);
  (void)use_gpu(gpu_);
  cudaError_t code = cudaEventRecord(done_, handle_);
  if (code == cudaSuccess) code = wait_for(done_);
  CudaCommunicator* const end = communicator_;
  Status absence;  // says which rank did not arrive
  if (end != nullptr) absence = end->take_failure();
  if (has_failure_) {
    const std::lock_guard lock(mutex_);
    has_failure_ = false;
    return std::exchange(failure_, Status());
  }
  if (code == cudaSuccess) return absence;
  if (end != nullptr) end->leave(last_);
  return asynchronous_failure(code);
}

bool CudaStream::failed() const {
  if (has_failure_) return true;
  if (const CudaCommunicator* const end = communicator_; end != nullptr && end->has_failed()) {
    return true;
  }
  const cudaError_t code = forget_not_ready(cudaStreamQuery(handle_));
  return code != cudaSuccess && code != cudaErrorNotReady;
}

void CudaStream::record(Event& event) {
  // Runs even after a failure, because another thread or stream waits for the event.
  (void)use_gpu(gpu_);
  const cudaError_t code = cudaEventRecord(dynamic_cast<CudaEvent&>(event).handle(), handle_);
  if (code != cudaSuccess) fail("record", cuda_status(code, "cudaEventRecord"));
}

void CudaStream::wait(Event& event) {
  (void)use_gpu(gpu_);
  const cudaError_t code =
      cudaStreamWaitEvent(handle_, dynamic_cast<CudaEvent&>(event).handle(), 0);
  if (code != cudaSuccess) fail("wait", cuda_status(code, "cudaStreamWaitEvent"));
}

void CudaStream::copy_to_device(void* device, const void* host, std::size_t bytes) {
  copy_rows_to_device(device, host, bytes, bytes, 1);
}

void CudaStream::copy_rows_to_device(void* device, const void* host, std::size_t row_bytes,
                                     std::size_t host_pitch, std::size_t rows) {
  if (row_bytes == 0 || rows == 0) return;
  TANDEM_CHECK(!recording_, "copies do not belong into a recording");
  enqueue("copy_to_device", [&] {
    const HostRows from{host, row_bytes, host_pitch, rows};
    if (link_ != nullptr) return link_->copy_to_device(device, from, *lane_, handle_);
    return enqueue_copy(device, from, handle_);
  });
}

void CudaStream::upload(void* device, const void* pinned, std::size_t bytes) {
  TANDEM_CHECK(!recording_, "copies do not belong into a recording");
  enqueue("upload", [&] { return launch_upload(device, pinned, bytes, handle_); });
}

void CudaStream::copy_to_host(void* host, const void* device, std::size_t bytes) {
  if (bytes == 0) return;
  TANDEM_CHECK(!recording_, "copies do not belong into a recording");
  enqueue("copy_to_host", [&] {
    return cuda_status(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, handle_),
                       "cudaMemcpyAsync");
  });
}

Status CudaStream::begin_recording() {
  TANDEM_CHECK(!recording_, "stream {} already records", name_);
  Status status = cuda_status(use_gpu(gpu_), "cudaSetDevice");
  if (status) status = prepare();
  if (status) {
    status = cuda_status(cudaStreamBeginCapture(handle_, cudaStreamCaptureModeThreadLocal),
                         "cudaStreamBeginCapture");
  }
  recording_ = status.ok();
  return fatal("begin_recording", status);
}

Result<std::unique_ptr<Graph>> CudaStream::end_recording() {
  TANDEM_CHECK(recording_, "stream {} does not record", name_);
  recording_ = false;
  cudaGraph_t recorded = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(handle_, &recorded);
  if (has_failure_) {  // an operation could not be recorded
    if (recorded != nullptr) (void)cudaGraphDestroy(recorded);
    return synchronize();
  }
  TANDEM_TRY(fatal("end_recording", cuda_status(ended, "cudaStreamEndCapture")));
  cudaGraphExec_t executable = nullptr;
  const cudaError_t instantiated = cudaGraphInstantiate(&executable, recorded, 0);
  (void)cudaGraphDestroy(recorded);
  TANDEM_TRY(fatal("end_recording", cuda_status(instantiated, "cudaGraphInstantiate")));
  auto graph = std::make_unique<CudaGraph>(executable);
  TANDEM_TRY(
      fatal("end_recording", cuda_status(cudaGraphUpload(executable, handle_), "cudaGraphUpload")));
  return std::unique_ptr<Graph>(std::move(graph));
}

void CudaStream::launch(Graph& graph) {
  TANDEM_CHECK(!recording_, "a recording does not launch another");
  enqueue("launch", [&]() -> Status {
    if (const CudaCommunicator* const end = communicator_) TANDEM_TRY(end->ended());
    return cuda_status(cudaGraphLaunch(dynamic_cast<CudaGraph&>(graph).handle(), handle_),
                       "cudaGraphLaunch");
  });
}

void CudaStream::resolve_tokens(const ResolveTokensArgs& args) {
  enqueue("resolve_tokens", [&] { return launch_resolve_tokens(args, handle_); });
}
void CudaStream::embed(const EmbedArgs& args) {
  check_args(args);
  enqueue("embed", [&] {
    return args.table.is_dense() ? launch_embed(args, handle_) : launch_packed_embed(args, handle_);
  });
}
void CudaStream::rms_norm(const RmsNormArgs& args) {
  check_args(args);
  enqueue("rms_norm", [&] { return launch_rms_norm(args, handle_); });
}
void CudaStream::sum_squares(const SumSquaresArgs& args) {
  check_args(args);
  enqueue("sum_squares", [&] { return launch_sum_squares(args, handle_); });
}
void CudaStream::add_norm(const AddNormArgs& args) {
  check_args(args);
  enqueue("add_norm", [&] { return launch_add_norm(args, handle_); });
}
void CudaStream::gemm(const GemmArgs& args) {
  check_args(args);
  enqueue("gemm", [&]() -> Status {
    TANDEM_TRY(prepare());
    return workspaces_.gemm->run(args, handle_);
  });
}
Status CudaStream::arrange(Weight& weight) {
  TANDEM_CHECK(!recording_, "arranging does not belong into a recording");
  TANDEM_TRY(synchronize());
  Status status = cuda_status(use_gpu(gpu_), "cudaSetDevice");
  if (status) status = prepare();
  if (status) status = workspaces_.gemm->arrange(weight, handle_);
  return fatal("arrange", status);
}
Status CudaStream::tune_gemm(std::span<const GemmArgs> like) {
  TANDEM_CHECK(!recording_, "tuning does not belong into a recording");
  for (const GemmArgs& args : like) check_args(args);
  TANDEM_TRY(synchronize());
  Status status = cuda_status(use_gpu(gpu_), "cudaSetDevice");
  if (status) status = prepare();
  if (status) status = workspaces_.gemm->tune(like, handle_);
  return fatal("tune_gemm", status);
}
void CudaStream::rotary_angles(const RotaryAnglesArgs& args) {
  check_args(args);
  enqueue("rotary_angles", [&] { return launch_rotary_angles(args, handle_); });
}
void CudaStream::rope_append(const RopeAppendArgs& args) {
  check_args(args);
  enqueue("rope_append", [&] { return launch_rope_append(args, handle_); });
}
void CudaStream::plan_attention(const AttentionPlan& plan) {
  enqueue("plan_attention", [&]() -> Status {
    TANDEM_TRY(prepare());
    return workspaces_.attention->plan(plan, handle_);
  });
}
void CudaStream::attention(const AttentionArgs& args) {
  check_args(args);
  enqueue("attention", [&]() -> Status {
    TANDEM_TRY(prepare());
    return workspaces_.attention->run(args, handle_);
  });
}
void CudaStream::swiglu(const SwigluArgs& args) {
  check_args(args);
  enqueue("swiglu", [&] { return launch_swiglu(args, handle_); });
}
void CudaStream::gemm_swiglu(const GemmSwigluArgs& args) {
  check_args(args);
  enqueue("gemm_swiglu", [&]() -> Status {
    TANDEM_TRY(prepare());
    return workspaces_.gemm->run(args, handle_);
  });
}
void CudaStream::scale_logits(const ScaleLogitsArgs& args) {
  check_args(args);
  enqueue("scale_logits", [&] { return launch_scale_logits(args, handle_); });
}
void CudaStream::gather_rows(const GatherRowsArgs& args) {
  check_args(args);
  enqueue("gather_rows", [&] { return launch_gather_rows(args, handle_); });
}
void CudaStream::all_reduce(const AllReduceArgs& args) {
  check_args(args);
  enqueue_meeting("all_reduce", *args.communicator,
                  [&](CudaCommunicator& end) { return end.all_reduce(args, handle_); });
}
void CudaStream::all_gather(const AllGatherArgs& args) {
  check_args(args);
  enqueue_meeting("all_gather", *args.communicator,
                  [&](CudaCommunicator& end) { return end.all_gather(args, handle_); });
}
void CudaStream::lora(const LoraArgs& args) {
  check_args(args);
  enqueue("lora", [&] { return launch_lora(args, handle_, LoraKernel::automatic, !args.live); });
}
void CudaStream::sample(const SampleArgs& args) {
  check_args(args);
  enqueue("sample", [&]() -> Status {
    TANDEM_TRY(prepare());
    return workspaces_.sampler->run(args, handle_);
  });
}

void CudaStream::offer(const OfferArgs& args) {
  check_args(args);
  const auto offer = [&](const GroupEnd* end) -> Status {
    TANDEM_TRY(prepare());
    return workspaces_.handoff->offer(args, end, handle_);
  };
  if (args.communicator == nullptr) {
    enqueue("offer", [&] { return offer(nullptr); });
  } else {
    enqueue_meeting("offer", *args.communicator, [&](CudaCommunicator& communicator) {
      const GroupEnd end = communicator.end();
      return offer(&end);
    });
  }
}
void CudaStream::accept(const AcceptArgs& args) {
  check_args(args);
  enqueue("accept", [&]() -> Status {
    TANDEM_TRY(prepare());
    return workspaces_.handoff->accept(args, handle_);
  });
}

void CudaStream::set_flag(std::uint32_t* flag, std::uint32_t value, std::int32_t count) {
  TANDEM_CHECK(!recording_, "flags do not belong into a recording");
  enqueue("set_flag", [&] { return enqueue_set_flag(flag, value, count, handle_); });
}
void CudaStream::wait_flag(const std::uint32_t* flag, std::uint32_t value) {
  TANDEM_CHECK(!recording_, "flags do not belong into a recording");
  std::erase_if(flag_waits_, [](const FlagWait& wait) { return is_set(wait.flag, wait.value); });
  flag_waits_.push_back({flag, value});
  enqueue("wait_flag", [&] { return enqueue_wait_flag(flag, value, handle_); });
}

}  // namespace tandem::cuda
