// The stage of the handoff's tests: a step's projection on the device and on its host twin, with
// workers that the test runs itself and that obey the doorbells.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "tests/gpu/ops/lora_weights.h"

namespace tandem {

using TestClock = std::chrono::steady_clock;

constexpr std::uint32_t kLongDeadlineUs = 30'000'000;  // in us; no machine misses it
constexpr std::int64_t kDoorbellStride = 8;
constexpr std::int64_t kWorkerSlotStride = 80;
constexpr int kWorkerSlots = 64;

// How the workers answer a group's job.
enum class TestAnswer {
  right,
  never,
  by_all_but_one,
  with_garbage,  // instead of the sequence
};

struct TestGroup {
  std::int32_t count = 1;
  std::vector<std::int32_t> ranks;  // by module
  std::int32_t mailbox = 0;
  std::uint64_t workers = 1;
  bool cpu = true;
  bool xa = false;
  bool a_ready = false;
  bool b_ready = false;
  TestAnswer answer = TestAnswer::right;
};

// One projection of one step.
struct TestScene {
  DType dtype = DType::bf16;
  DType out_dtype = DType::bf16;
  std::int64_t in = 40;
  std::vector<std::int64_t> outputs{24};
  std::vector<TestGroup> groups;
  std::int32_t warm_rows = 3;        // of a resident adapter, in no group
  std::int32_t other_rows = 2;       // of no adapter
  std::int32_t shift = 0;            // > 0: weights lie in chunks
  std::vector<std::int32_t> broken;  // before the offer
  // If larger than the number of groups, the device's arrays have room for so many, and hold
  // garbage beyond the groups, which must not be used.
  std::int32_t room_for_groups = 0;
  std::int32_t max_count = 0;  // bounds in the arguments, if larger than the actual numbers
  std::int32_t max_rank = 0;
  std::int32_t num_mails = 1;
  bool biases = false;  // of every module

  bool is_bounded() const { return room_for_groups > 0; }
};

// One mailbox's areas, in memory that both sides see; y and v are full of NaN.
class TestMail {
 public:
  TestMail(Device& device, DType dtype, std::int64_t rows, std::int64_t in, std::int64_t out,
           std::int64_t ranks)
      : memory_(std::move(device.allocate_pinned(bytes(rows, in, out, ranks), "mailbox")).value()) {
    std::byte* at = memory_.data();
    const auto take = [&](std::int64_t count) { return std::exchange(at, at + round(count)); };
    view_.doorbells = reinterpret_cast<std::uint64_t*>(take(kMaxColdGroups * kDoorbellStride * 8));
    view_.doorbell_stride = kDoorbellStride;
    done_ = reinterpret_cast<std::uint64_t*>(take(kWorkerSlots * kWorkerSlotStride * 8));
    view_.done = done_;
    view_.worker_slot_stride = kWorkerSlotStride;
    std::memset(view_.doorbells, 0, kMaxColdGroups * kDoorbellStride * 8);
    std::memset(done_, 0, kWorkerSlots * kWorkerSlotStride * 8);
    const auto size = static_cast<std::int64_t>(size_of(dtype));
    view_.x = take(rows * in * size);
    y_ = take(rows * out * size);
    view_.y = y_;
    v_ = reinterpret_cast<float*>(take(rows * (ranks + kVRoom) * 4));
    view_.v = v_;
    view_.max_in = in;
    view_.max_out = out;
    view_.max_v = ranks;
    view_.v_row = ranks + kVRoom;
    forget();
  }

  // Overwrites the data of a handover (x, y and v), but not the doorbells and words.
  void forget() const {
    std::memset(view_.x, 0xFF,
                static_cast<std::size_t>(memory_.data() + memory_.bytes() - view_.x));
  }
  const MailboxView& view() const { return view_; }
  std::byte* y() const { return y_; }
  float* v() const { return v_; }
  std::uint64_t doorbell(std::int32_t group) const {
    // acquire: pairs with the offer's release of the doorbell
    return std::atomic_ref<std::uint64_t>(view_.doorbells[group * kDoorbellStride])
        .load(std::memory_order_acquire);
  }
  void answer(int worker_slot, std::int32_t group, std::uint64_t sequence) const {
    // release: pairs with the accept's acquire of `done`
    std::atomic_ref<std::uint64_t>(done_[worker_slot * kWorkerSlotStride + group])
        .store(sequence, std::memory_order_release);
  }

 private:
  static constexpr std::int64_t kVRoom = 16;  // floats between a row of v and the next

  static std::int64_t round(std::int64_t bytes) { return (bytes + 63) / 64 * 64; }
  static std::size_t bytes(std::int64_t rows, std::int64_t in, std::int64_t out,
                           std::int64_t ranks) {
    return static_cast<std::size_t>(kMaxColdGroups * kDoorbellStride * 8 +
                                    kWorkerSlots * kWorkerSlotStride * 8 +
                                    rows * (in + out + ranks + kVRoom) * 4 + 256);
  }

  Buffer memory_;
  MailboxView view_;
  std::byte* y_ = nullptr;
  float* v_ = nullptr;
  std::uint64_t* done_ = nullptr;
};

class HandoffTest : public LoraTest {
 protected:
  static constexpr std::uint32_t kGeneration = 7;

  // A scene on both sides: laid out, then offered and accepted, in jobs of rising sequence.
  struct Stage {
    TestScene scene;
    Weights weights;
    std::vector<LoraMatrix> telling_table;  // the device's, garbage where the load has not been
    std::vector<std::int32_t> rows;
    std::vector<LoraSegment> segments;
    std::vector<ColdGroup> groups;
    OfferDescriptor descriptor;
    std::int32_t widest = 1;                // the widest v of all groups
    std::vector<std::int32_t> mailed_rows;  // rows in each mailbox
    std::vector<TestMail> mails;
    OfferArgs offer;  // for the device; the twin's differ in addresses
    LoraArgs lora;
    AcceptArgs accept;
    std::uint64_t sequence = 0;

    std::optional<TestTensor> x, out;
    std::optional<TestArray<std::int32_t>> d_rows;
    std::optional<TestArray<LoraSegment>> d_segments, d_live;
    std::optional<TestArray<ColdGroup>> d_groups;
    std::optional<TestArray<OfferDescriptor>> d_descriptor;
    Buffer pinned_descriptor;
    std::optional<TestArray<LoraMatrix>> d_table;
    std::optional<TestArray<std::uint32_t>> d_ready, d_tickets, d_timed_out;
    std::optional<TestArray<HandoffState>> d_state;

    // Used by the host twin only.
    std::vector<TestMail> twin_mails;
    std::vector<LoraSegment> live;
    std::vector<std::uint32_t> ready, tickets, timed_out;
    HandoffState state{};
    // The rows that the worker found when the doorbell rang.
    std::vector<std::vector<std::byte>> seen;
  };

  static constexpr std::int64_t kReadyStride = 10;
  static constexpr std::int64_t kReadyOffset = 4;

  void lay_out(Stage& s);
  // Switches between jobs to another scene with the same bounds and number of rows, in the same
  // memory, so that recordings of the stage's jobs stay valid.
  void change(Stage& s, TestScene scene);
  // Derives everything in host memory from the scene.
  void describe(Stage& s);
  void describe_segments(Stage& s);
  void describe_groups(Stage& s);
  static void fill_args(Stage& s);
  static void place(const TestScene& scene, const TensorView& whole, TensorView* out);
  // Runs the workers of all groups, on a thread of its own: obeys each doorbell once it rings for
  // the stage's sequence, then ends.
  static void work(Stage& s);
  static void compute(Stage& s, std::size_t g, Ticket ticket);
  static void write_y(const Stage& s, std::size_t g, const TensorView& x, std::byte* y);
  static void write_v(const Stage& s, std::size_t g, const TensorView& x, float* v);
  // Copies the next job's descriptor to the device. Its sequence is above that of every earlier job
  // on the stream, including those of other stages: if a sequence came again, words about the first
  // one would still be valid (gpu/cuda/handoff/answers.cuh).
  void next_job(Stage& s);
  void enqueue(const Stage& s);
  // Runs the step's projection on the device. `apart`: the accept is enqueued when the workers have
  // given all their answers, so that even a deadline of zero is long enough.
  void run(Stage& s, bool apart);
  // Likewise, by launching a recording of enqueue().
  void run(Stage& s, Graph& recording);
  // Runs the host twin, which reads the workers' answers, and compares everything.
  void judge(Stage& s, const std::string& what);
  static void judge_mail(Stage& s, std::size_t g, const std::string& what);
  void check(TestScene scene, bool apart, const std::string& what);

  std::uint64_t last_sequence_ = 0;  // of the jobs on the stream
};

}  // namespace tandem
