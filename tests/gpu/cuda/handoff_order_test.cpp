// Tests that need real DMA engines, streams and a link: the order of a load's copies and its ready
// words, of rows and doorbells, of answers and words, repeated many times; and the slowed link.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "gpu/cuda/cuda_device.h"

namespace tandem {
namespace {

constexpr std::int64_t kIn = 64;
constexpr std::int64_t kOut = 96;
constexpr std::int32_t kRank = 16;
constexpr std::int32_t kRows = 24;
constexpr int kOffers = 3;  // per load, or fewer

// One adapter of one module in f32, one group of all rows, and a mailbox in memory that the caller
// owns. Values are small integers, so that every sum is exact.
class HandoffOrder : public ::testing::Test {
 protected:
  struct State {
    std::int32_t rows[kRows];
    LoraSegment segment, live;
    ColdGroup group;
    OfferDescriptor descriptors[kOffers];
    HandoffState handoff;
    LoraMatrix matrix;
    std::uint32_t ready[kNumLoadParts];
    std::uint32_t tickets[kOffers], timed_out;
  };
  struct Mail {
    alignas(64) std::uint64_t doorbell;
    alignas(64) std::uint64_t done;
    alignas(64) float x[kRows * kIn];
    alignas(64) float y[kRows * kOut];
  };
  struct Weights {  // of one load, in host memory and, piece by piece, on the device
    float a[kRank * kIn];
    float b[kOut * kRank];
  };

  void SetUp() override {
    mail_ = static_cast<Mail*>(
        mmap(nullptr, sizeof(Mail), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(mail_, MAP_FAILED);
    pinned_ = std::move(device_->pin(reinterpret_cast<std::byte*>(mail_),
                                     (sizeof(Mail) + 4095) / 4096 * 4096, "a mailbox"))
                  .value();
    weights_ = std::move(device_->allocate_pinned(2 * sizeof(Weights), "weights")).value();
    State state{};
    for (std::int32_t r = 0; r < kRows; ++r) state.rows[r] = r;
    state.segment = {0, 0, kRows};
    auto* adapter = reinterpret_cast<Weights*>(adapter_.data());
    state.matrix = {reinterpret_cast<std::uint64_t>(adapter->a),
                    reinterpret_cast<std::uint64_t>(adapter->b), kRank, kRank};
    state.group.workers = 1;
    host_state_ = state;
    copy(state_, &state, sizeof state);
    for (std::int64_t i = 0; i < kRows * kIn; ++i) x_[i] = static_cast<float>(i % 5 - 2);
    copy(x_on_device_, x_, sizeof x_);
  }
  void TearDown() override {
    pinned_ = Buffer();
    munmap(mail_, sizeof(Mail));
  }

  void copy(const Buffer& to, const void* from, std::size_t bytes) {
    stream_->copy_to_device(to.data(), from, bytes);
    ASSERT_TRUE(stream_->synchronize().ok());
  }
  // Prepares the next offers' descriptors in host_state_, which the caller copies to the device.
  void make_descriptors(std::uint64_t first) {
    for (OfferDescriptor& descriptor : host_state_.descriptors) {
      descriptor.sequence = first++;
      descriptor.cpu_groups = 1;
      descriptor.adapted[0] = 1;
    }
  }
  State* on_device() { return reinterpret_cast<State*>(state_.data()); }
  Weights& weights(int which) { return reinterpret_cast<Weights*>(weights_.data())[which]; }

  // Weights whose product with x is `value` times the product with value 1.
  static void fill(Weights& weights, float value) {
    for (std::int64_t i = 0; i < kRank * kIn; ++i) weights.a[i] = static_cast<float>(i % 3 - 1);
    for (std::int64_t i = 0; i < kOut * kRank; ++i) {
      weights.b[i] = value * static_cast<float>(i % 4 - 1);
    }
  }
  void delta(const Weights& weights, float* y) const {
    for (std::int32_t r = 0; r < kRows; ++r) {
      float v[kRank] = {};
      for (int k = 0; k < kRank; ++k) {
        for (std::int64_t i = 0; i < kIn; ++i) v[k] += x_[r * kIn + i] * weights.a[k * kIn + i];
      }
      for (std::int64_t o = 0; o < kOut; ++o) {
        y[r * kOut + o] = 0;
        for (int k = 0; k < kRank; ++k) y[r * kOut + o] += v[k] * weights.b[o * kRank + k];
      }
    }
  }

  OfferArgs offer(int index) {
    OfferArgs args{};
    args.descriptor = &on_device()->descriptors[index];
    args.x = {x_on_device_.data(), DType::f32, {kRows, kIn}};
    args.rows = on_device()->rows;
    args.segments = &on_device()->segment;
    args.num_segments = 1;
    args.live = &on_device()->live;
    args.groups = &on_device()->group;
    args.num_groups = 1;
    args.ready = on_device()->ready;
    args.slot_stride = kNumLoadParts;
    args.mailboxes[0] = view();
    args.tickets = &on_device()->tickets[index];
    args.state = &on_device()->handoff;
    args.max_count = kRows;
    return args;
  }
  LoraArgs lora() {
    LoraArgs args{};
    args.x = {x_on_device_.data(), DType::f32, {kRows, kIn}};
    args.table = &on_device()->matrix;
    args.slot_stride = 1;
    args.num_modules = 1;
    args.out[0] = out();
    args.rows = on_device()->rows;
    args.num_rows = kRows;
    args.segments = &on_device()->live;
    args.num_segments = 1;
    args.max_rank = kRank;
    args.max_count = kRows;
    args.live = true;
    return args;
  }
  AcceptArgs accept(int index) {
    AcceptArgs args{};
    args.descriptor = &on_device()->descriptors[index];
    args.num_modules = 1;
    args.out[0] = out();
    args.dtype = DType::f32;
    args.rows = on_device()->rows;
    args.segments = &on_device()->segment;
    args.groups = &on_device()->group;
    args.num_groups = 1;
    args.tickets = &on_device()->tickets[index];
    args.mailboxes[0] = view();
    args.deadline_us = 5'000'000;
    args.state = &on_device()->handoff;
    args.timed_out = &on_device()->timed_out;
    args.table = &on_device()->matrix;
    args.slot_stride = 1;
    args.max_count = kRows;
    return args;
  }

  std::unique_ptr<Device> device_ = std::move(make_cuda_device({})).value();
  std::unique_ptr<Stream> stream_ = std::move(device_->create_stream("compute")).value();
  std::unique_ptr<Stream> load_ = std::move(device_->create_stream("load")).value();
  Mail* mail_ = nullptr;
  Buffer pinned_, weights_;
  Buffer state_ = std::move(device_->allocate(sizeof(State), "state")).value();
  Buffer adapter_ = std::move(device_->allocate(sizeof(Weights), "adapter")).value();
  Buffer x_on_device_ = std::move(device_->allocate(sizeof x_, "x")).value();
  Buffer out_ = std::move(device_->allocate(kRows * kOut * 4, "outputs")).value();
  State host_state_{};
  float x_[kRows * kIn] = {};

 private:
  TensorView out() { return {out_.data(), DType::f32, {kRows, kOut}}; }
  MailboxView view() {
    MailboxView view;
    view.x = reinterpret_cast<std::byte*>(mail_->x);
    view.doorbells = &mail_->doorbell;
    view.doorbell_stride = 1;
    view.y = reinterpret_cast<const std::byte*>(mail_->y);
    view.done = &mail_->done;
    view.worker_slot_stride = 1;
    view.max_in = kIn;
    view.max_out = kOut;
    view.max_v = view.v_row = kRank;
    return view;
  }
};

// 10,000 loads, each with other weights, race with offers. Whichever side computes a projection, it
// must be computed once and with this load's weights. The CPU uses the load's host copy.
TEST_F(HandoffOrder, AddsEveryDeltaOnceWhereverTheLoadIs) {
  constexpr int kLoads = 10'000;
  std::atomic<float> value = 0;
  std::vector<float> one(kRows * kOut);
  fill(weights(0), 1);
  delta(weights(0), one.data());
  std::atomic<bool> stop = false;
  std::atomic<std::uint64_t> wrong_rows = 0;
  std::thread worker([&] {
    for (std::uint64_t next = 1; !stop;) {
      // acquire: pairs with the offer's release
      const std::uint64_t doorbell =
          std::atomic_ref<std::uint64_t>(mail_->doorbell).load(std::memory_order_acquire);
      if (sequence_of(doorbell) < next) continue;
      next = sequence_of(doorbell) + 1;
      if (ticket_of(doorbell) != Ticket::cpu) continue;
      if (std::memcmp(mail_->x, x_, sizeof x_) != 0) ++wrong_rows;
      std::memset(mail_->x, 0xFF, sizeof mail_->x);
      for (std::size_t i = 0; i < one.size(); ++i) mail_->y[i] = value * one[i];
      // release: pairs with the accept's acquire
      std::atomic_ref<std::uint64_t>(mail_->done)
          .store(sequence_of(doorbell), std::memory_order_release);
    }
  });
  std::vector<float> got(kRows * kOut);
  std::uint64_t sequence = 0;
  int on_gpu = 0;
  int at_every[kOffers + 1] = {};
  std::uint32_t tickets[kOffers + 1];  // and one for timed_out
  for (int load = 1; load <= kLoads && !HasFailure(); ++load) {
    value = static_cast<float>(load % 11 + 1);
    fill(weights(load % 2), value);
    host_state_.group.generation = static_cast<std::uint32_t>(load);
    make_descriptors(sequence + 1);
    sequence += kOffers;
    stream_->copy_to_device(state_.data(), &host_state_, offsetof(State, ready));
    const std::vector<float> zeros(kRows * kOut, 0.0F);
    stream_->copy_to_device(out_.data(), zeros.data(), zeros.size() * 4);
    ASSERT_TRUE(stream_->synchronize().ok());

    const auto send = [&] {
      auto* adapter = reinterpret_cast<Weights*>(adapter_.data());
      load_->copy_to_device(adapter->a, weights(load % 2).a, sizeof adapter->a);
      load_->copy_to_device(adapter->b, weights(load % 2).b, sizeof adapter->b);
      load_->set_flag(on_device()->ready, static_cast<std::uint32_t>(load), kNumLoadParts);
    };
    if (load % 3 == 0) send();
    for (int i = 0; i < kOffers; ++i) {
      stream_->offer(offer(i));
      stream_->lora(lora());
      stream_->accept(accept(i));
      if (load % 3 != 0 && load % kOffers == i) send();
    }
    stream_->copy_to_host(got.data(), out_.data(), got.size() * 4);
    stream_->copy_to_host(tickets, on_device()->tickets, sizeof tickets);
    ASSERT_TRUE(stream_->synchronize().ok());
    ASSERT_TRUE(load_->synchronize().ok());
    ASSERT_EQ(tickets[kOffers], 0U) << "void";
    int first = kOffers;
    for (int i = kOffers; i-- > 0;) {
      if (tickets[i] != static_cast<std::uint32_t>(Ticket::gpu)) break;
      first = i;
      ++on_gpu;
    }
    ++at_every[first];
    for (std::size_t i = 0; i < got.size(); ++i) {
      ASSERT_EQ(got[i], kOffers * value * one[i])
          << "load " << load << " element " << i << ", on the GPU from offer " << first;
    }
  }
  stop = true;
  worker.join();
  EXPECT_EQ(wrong_rows, 0U);
  EXPECT_GT(on_gpu, 0);
  for (int i = 0; i <= kOffers; ++i) std::printf("taken over at %d: %d\n", i, at_every[i]);
}

// The whole load arrives between any two kernels of a projection.
TEST_F(HandoffOrder, TakesOverBetweenAnyTwoKernels) {
  std::vector<float> one(kRows * kOut);
  fill(weights(0), 1);
  delta(weights(0), one.data());
  std::uint64_t sequence = 0;
  for (int boundary = 0; boundary <= 6; ++boundary) {
    host_state_.group.generation = static_cast<std::uint32_t>(boundary + 1);
    make_descriptors(sequence + 1);
    copy(state_, &host_state_, offsetof(State, ready));
    const std::vector<float> zeros(kRows * kOut, 0.0F);
    copy(out_, zeros.data(), zeros.size() * 4);
    const std::vector<float> poison(sizeof(Weights) / 4, 1e9F);
    copy(adapter_, poison.data(), sizeof(Weights));
    int kernel = 0;
    std::vector<std::unique_ptr<Event>> events;
    const auto at_boundary = [&] {
      if (kernel++ != boundary) return;
      events.push_back(device_->create_event());
      stream_->record(*events.back());
      load_->wait(*events.back());
      load_->copy_to_device(adapter_.data(), &weights(0), sizeof(Weights));
      load_->set_flag(on_device()->ready, host_state_.group.generation, kNumLoadParts);
      events.push_back(device_->create_event());
      load_->record(*events.back());
      stream_->wait(*events.back());
    };
    for (int i = 0; i < 2; ++i) {
      ++sequence;
      at_boundary();
      stream_->offer(offer(i));
      at_boundary();
      stream_->lora(lora());
      at_boundary();
      std::thread worker([&] {
        const SteadyClock clock;
        const TimePoint end = clock.now() + std::chrono::seconds(10);
        std::uint64_t doorbell = 0;
        while (sequence_of(doorbell) != sequence && clock.now() < end) {
          doorbell =
              std::atomic_ref<std::uint64_t>(mail_->doorbell).load(std::memory_order_acquire);
        }
        if (ticket_of(doorbell) != Ticket::cpu) return;
        std::copy(one.begin(), one.end(), mail_->y);
        std::atomic_ref<std::uint64_t>(mail_->done).store(sequence, std::memory_order_release);
      });
      stream_->accept(accept(i));
      worker.join();
    }
    at_boundary();
    std::vector<float> got(kRows * kOut);
    std::uint32_t last = 0;
    stream_->copy_to_host(got.data(), out_.data(), got.size() * 4);
    stream_->copy_to_host(&last, &on_device()->tickets[1], sizeof last);
    ASSERT_TRUE(stream_->synchronize().ok());
    EXPECT_EQ(last, static_cast<std::uint32_t>(boundary <= 3 ? Ticket::gpu : Ticket::cpu))
        << "boundary " << boundary;
    for (std::size_t i = 0; i < got.size(); ++i) {
      ASSERT_EQ(got[i], 2 * one[i]) << "boundary " << boundary << " element " << i;
    }
  }
}

// Turns, groups and segments are read before earlier kernels have ended, except for their upload,
// which waits until the kernels before it have read the previous ones.
TEST_F(HandoffOrder, ReadsWhatTheUploadInFrontBrought) {
  const Buffer pinned = std::move(device_->allocate_pinned(sizeof(State), "state")).value();
  for (std::uint64_t sequence = 1; sequence < 40; sequence += 2) {
    host_state_.group.generation = 1;
    host_state_.segment.count = 1;
    make_descriptors(sequence);
    copy(state_, &host_state_, sizeof(State));
    std::memset(mail_->x, 0xFF, sizeof mail_->x);
    stream_->offer(offer(0));
    AcceptArgs nobody_answers = accept(0);
    nobody_answers.deadline_us = 3000;
    stream_->accept(nobody_answers);
    host_state_.segment.count = kRows;
    make_descriptors(sequence + 1);
    std::memcpy(pinned.data(), &host_state_, sizeof(State));
    stream_->upload(state_.data(), pinned.data(), sizeof(State));
    stream_->offer(offer(0));
    ASSERT_TRUE(stream_->synchronize().ok());
    ASSERT_EQ(mail_->doorbell, doorbell_of(sequence + 1, Ticket::cpu));
    ASSERT_EQ(std::memcmp(mail_->x, x_, sizeof x_), 0) << "sequence " << sequence;
  }
}

TEST_F(HandoffOrder, AStreamThatIsDestroyedWaitsForNoFlag) {
  auto* flag = reinterpret_cast<std::uint32_t*>(&mail_->done);
  *flag = 3;
  auto stream = std::move(device_->create_stream("waits")).value();
  stream->wait_flag(flag, 4);
  stream->wait_flag(flag, 5);
  stream.reset();
  EXPECT_EQ(*flag, 3U);
}

TEST(PacedLink, TakesAsLongAsALinkOfItsSpeed) {
  for (const double gbps : {4.0, 10.0, 25.0}) {
    CudaDeviceOptions options;
    options.link_gbps = gbps;
    const auto device = std::move(make_cuda_device(options)).value();
    const auto one = std::move(device->create_stream("one")).value();
    const auto two = std::move(device->create_stream("two")).value();
    constexpr std::size_t kBytes = std::size_t{48} << 20;
    constexpr std::size_t kPiece = std::size_t{3} << 20;
    const Buffer host = std::move(device->allocate_pinned(kBytes, "test")).value();
    const Buffer memory = std::move(device->allocate(kBytes, "test")).value();
    const SteadyClock clock;
    const double want = static_cast<double>(kBytes) / (gbps * 1e9);
    for (const int streams : {1, 2}) {
      double best = HUGE_VAL;
      for (int round = 0; round < 3; ++round) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));  // the link is idle
        const TimePoint start = clock.now();
        for (std::size_t at = 0; at < kBytes; at += kPiece) {
          Stream& stream = streams == 1 || at / kPiece % 2 == 0 ? *one : *two;
          stream.copy_to_device(memory.data() + at, host.data() + at, kPiece);
        }
        ASSERT_TRUE(one->synchronize().ok());
        ASSERT_TRUE(two->synchronize().ok());
        const double took = seconds_between(start, clock.now());
        EXPECT_GE(took, want) << gbps << " GB/s, " << streams << " streams";
        best = std::min(best, took);
      }
      EXPECT_LT(best, want * 1.1) << gbps << " GB/s, " << streams << " streams";
      std::printf("%g GB/s, %d streams: %.3f of the time\n", gbps, streams, best / want);
    }
    // A single small piece is not faster either.
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    constexpr std::size_t kSmall = std::size_t{200} << 10;
    const TimePoint start = clock.now();
    one->copy_to_device(memory.data(), host.data(), kSmall);
    ASSERT_TRUE(one->synchronize().ok());
    EXPECT_GE(seconds_between(start, clock.now()), static_cast<double>(kSmall) / (gbps * 1e9));
  }
}

TEST(PacedLink, RefusesASpeedThatIsNone) {
  for (const double gbps : {-1.0, std::nan("")}) {
    CudaDeviceOptions options;
    options.link_gbps = gbps;
    EXPECT_FALSE(make_cuda_device(options).ok());
  }
}

}  // namespace
}  // namespace tandem
