// A stream of the CUDA device: a non-blocking cudaStream_t and the state of its operations.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/cuda/attention/attention.h"
#include "gpu/cuda/collectives/cuda_communicator.h"
#include "gpu/cuda/gemm/gemm.h"
#include "gpu/cuda/handoff/handoff.h"
#include "gpu/cuda/link/paced_link.h"
#include "gpu/cuda/sampling/sampler.h"
#include "gpu/device.h"

namespace tandem::cuda {

// Makes this GPU the calling thread's current one. Any code may select another GPU for the thread,
// so this is called before each operation that depends on it.
cudaError_t use_gpu(int gpu);

// If an operation could not be enqueued, later ones are skipped until synchronize() has reported
// it. A kernel that fails while running destroys the context: every later call reports it. A stream
// in a group passes either failure on to the other ranks; if another rank does not arrive, the code
// is StatusCode::cancelled, and the device is as usable as before.
class CudaStream final : public Stream {
 public:
  // `link`: slows copies to the device; null: none. Outlives the stream.
  static Result<std::unique_ptr<CudaStream>> create(int gpu, std::string_view name,
                                                    PacedLink* link);
  ~CudaStream() override;  // runs what is enqueued first, without waiting for flags
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  void record(Event& event) override;
  void wait(Event& event) override;
  Status synchronize() override;
  bool failed() const override;
  Status prepare() override;

  void copy_to_device(void* device, const void* host, std::size_t bytes) override;
  void copy_rows_to_device(void* device, const void* host, std::size_t row_bytes,
                           std::size_t host_pitch, std::size_t rows) override;
  void copy_to_host(void* host, const void* device, std::size_t bytes) override;
  void upload(void* device, const void* pinned, std::size_t bytes) override;

  Status begin_recording() override;
  Result<std::unique_ptr<Graph>> end_recording() override;
  void launch(Graph& graph) override;

  void plan_attention(const AttentionPlan& plan) override;
  void resolve_tokens(const ResolveTokensArgs& args) override;
  void embed(const EmbedArgs& args) override;
  void rms_norm(const RmsNormArgs& args) override;
  void sum_squares(const SumSquaresArgs& args) override;
  void add_norm(const AddNormArgs& args) override;
  void gemm(const GemmArgs& args) override;
  Status arrange(Weight& weight) override;
  Status tune_gemm(std::span<const GemmArgs> like) override;
  void rotary_angles(const RotaryAnglesArgs& args) override;
  void rope_append(const RopeAppendArgs& args) override;
  void attention(const AttentionArgs& args) override;
  void swiglu(const SwigluArgs& args) override;
  void gemm_swiglu(const GemmSwigluArgs& args) override;
  void scale_logits(const ScaleLogitsArgs& args) override;
  void gather_rows(const GatherRowsArgs& args) override;
  void all_reduce(const AllReduceArgs& args) override;
  void all_gather(const AllGatherArgs& args) override;
  void lora(const LoraArgs& args) override;
  void sample(const SampleArgs& args) override;
  void offer(const OfferArgs& args) override;
  void accept(const AcceptArgs& args) override;
  void set_flag(std::uint32_t* flag, std::uint32_t value, std::int32_t count) override;
  void wait_flag(const std::uint32_t* flag, std::uint32_t value) override;

  cudaStream_t handle() const { return handle_; }

 private:
  // State that operations keep between calls (plans, scratch). It is made at the first operation
  // that needs it or at the first recording, so that streams that only copy never pay for it.
  struct Workspaces {
    std::unique_ptr<Attention> attention;
    std::unique_ptr<Gemm> gemm;
    std::unique_ptr<Handoff> handoff;
    std::unique_ptr<Sampler> sampler;
  };

  CudaStream(int gpu, std::string_view name, PacedLink* link)
      : gpu_(gpu), name_(name), link_(link) {}
  template <typename Body>
  void enqueue(const char* what, Body&& body);
  // Enqueues a collective operation: body(its communicator).
  template <typename Body>
  void enqueue_meeting(const char* what, Communicator& communicator, Body&& body);
  void fail(const char* what, const Status& status);
  void stop_waiting();
  Status fatal(const char* what, const Status& status) const;
  Status asynchronous_failure(cudaError_t code) const;

  const int gpu_;
  const std::string name_;
  PacedLink* const link_;
  PacedLink::LaneHandle lane_;  // the lane of link_, if there is one
  cudaStream_t handle_ = nullptr;
  cudaEvent_t done_ = nullptr;  // synchronize() waits for it
  bool recording_ = false;
  const char* last_ = "nothing";  // the operation enqueued last
  struct FlagWait {
    const std::uint32_t* flag;
    std::uint32_t value;
  };
  std::vector<FlagWait> flag_waits_;  // waits that may still be pending
  Workspaces workspaces_;
  bool prepared_ = false;
  std::atomic<CudaCommunicator*> communicator_ = nullptr;  // the rank's end of the group
  std::atomic<bool> has_failure_ = false;
  mutable std::mutex mutex_;
  Status failure_;  // guarded by mutex_
};

}  // namespace tandem::cuda
