// A stream of the host device: a thread that runs closures in order.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "gpu/device.h"
#include "gpu/host/context/context.h"
#include "gpu/host/link.h"

namespace tandem::host {

// Enqueuing waits only while kMaxQueued operations are outstanding. After an operation fails, later
// ones are skipped (events still pass) until synchronize() has reported the failure.
class HostStream final : public Stream {
 public:
  // `pool`, `matmuls` and `link` outlive the stream.
  HostStream(std::string_view name, ThreadPool& pool, MatmulCache& matmuls, LinkPacer& link);
  // Runs the queued operations first. A wait_flag whose word is not written by then fails, and the
  // operations after it are skipped, so that a forgotten flag cannot block the destructor.
  ~HostStream() override;
  HostStream(const HostStream&) = delete;
  HostStream& operator=(const HostStream&) = delete;

  void record(Event& event) override;
  void wait(Event& event) override;
  Status synchronize() override;
  bool failed() const override;

  void copy_to_device(void* device, const void* host, std::size_t bytes) override;
  void copy_rows_to_device(void* device, const void* host, std::size_t row_bytes,
                           std::size_t host_pitch, std::size_t rows) override;
  void upload(void* device, const void* pinned, std::size_t bytes) override;
  void copy_to_host(void* host, const void* device, std::size_t bytes) override;

  Status begin_recording() override;
  Result<std::unique_ptr<Graph>> end_recording() override;
  void launch(Graph& graph) override;

  void plan_attention(const AttentionPlan&) override {}  // splits at run time
  void resolve_tokens(const ResolveTokensArgs& args) override;
  void embed(const EmbedArgs& args) override;
  void rms_norm(const RmsNormArgs& args) override;
  void sum_squares(const SumSquaresArgs& args) override;
  void add_norm(const AddNormArgs& args) override;
  void gemm(const GemmArgs& args) override;
  void rotary_angles(const RotaryAnglesArgs& args) override;
  void rope_append(const RopeAppendArgs& args) override;
  void attention(const AttentionArgs& args) override;
  void swiglu(const SwigluArgs& args) override;
  void scale_logits(const ScaleLogitsArgs& args) override;
  void gather_rows(const GatherRowsArgs& args) override;
  void lora(const LoraArgs& args) override;
  void sample(const SampleArgs& args) override;
  void all_reduce(const AllReduceArgs& args) override;
  void all_gather(const AllGatherArgs& args) override;
  void offer(const OfferArgs& args) override;
  void accept(const AcceptArgs& args) override;
  void set_flag(std::uint32_t* flag, std::uint32_t value, std::int32_t count) override;
  void wait_flag(const std::uint32_t* flag, std::uint32_t value) override;

  // Runs any function, in order; a failure names it by `what`, a literal. For tests and extensions.
  void run(const char* what, std::function<void()> body);

  static constexpr std::size_t kMaxQueued = 4096;

 private:
  struct Operation {
    const char* what;
    bool always;  // runs even after a failure, because others wait for it
    std::function<void()> body;
  };
  struct HostGraph final : Graph {
    std::vector<Operation> operations;
  };

  void enqueue(Operation operation);
  void loop();
  Status status_of_exception(const char* what) const noexcept;

  template <typename Args>
  void enqueue_meeting(const char* what, void (*operation)(OpContext&, const Args&),
                       const Args& args);
  template <typename Args>
  void enqueue_args(const char* what, void (*operation)(OpContext&, const Args&), const Args& args);

  const std::string name_;
  std::unique_ptr<HostGraph> recording_;  // used by the enqueuing thread
  LinkPacer& link_;
  OpContext context_;  // used only by the stream's thread
  std::atomic<bool> stopping_{false};
  mutable std::mutex mutex_;  // guards the fields below
  std::condition_variable queued_;
  std::condition_variable advanced_;
  std::deque<Operation> queue_;
  bool running_ = false;
  bool stop_ = false;
  Status failure_;
  std::thread thread_;  // last: starts once the rest is initialised
};

}  // namespace tandem::host
