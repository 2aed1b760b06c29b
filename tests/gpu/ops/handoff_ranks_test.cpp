// Offer and accept of two ranks that share a model. Both use one GPU if there is no other.
#include <fmt/format.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>

#include "base/clock.h"
#include "tests/gpu/ops/ops_fixture.h"

namespace tandem {
namespace {

constexpr std::size_t kRanks = 2;
constexpr std::int64_t kIn = 32;  // a rank's columns of x, if it has only a part
constexpr std::int32_t kLoraRank = 8;
constexpr std::int32_t kModules = 2;
constexpr std::int64_t kOut[kModules] = {24, 16};  // a rank's columns
constexpr std::int64_t kWidth = kOut[0] + kOut[1];
constexpr std::int64_t kWorkerSlots = 8;  // stride of the workers' done words

// The parts of a group's layer that have arrived, by rank, and the ticket that must follow.
struct ColdCase {
  std::array<bool, kRanks> has_a;
  std::array<bool, kRanks> has_b;
  bool cpu;
  bool xa;
  std::int32_t mailbox;
  Ticket want;
};
constexpr ColdCase kCases[] = {
    {{false, false}, {false, false}, true, false, 0, Ticket::cpu},
    {{true, true}, {true, true}, true, true, 0, Ticket::gpu},
    {{true, false}, {true, true}, true, false, 0, Ticket::cpu},
    {{false, true}, {true, true}, true, true, 0, Ticket::cpu_xa},
    {{false, false}, {false, false}, true, false, 1, Ticket::dropped},  // a broken mailbox
    {{true, true}, {true, false}, false, true, 0, Ticket::dropped},
    {{false, false}, {true, false}, true, true, 0, Ticket::cpu},
};
constexpr std::size_t kGroups = std::size(kCases);
constexpr std::size_t kMaxGroups = kGroups + 2;  // as in the arguments

// Values are small integers, so that every sum is exact.
float x_of(std::int64_t row, std::int64_t column) {
  return static_cast<float>((row * 5 + column) % 7 - 3);
}
float y_of(std::int64_t row, std::int64_t column) {
  return static_cast<float>((row * 3 + column) % 11 - 5);
}
float v_of(std::int64_t row, std::int64_t column) {
  return static_cast<float>((row + column * 2) % 5 - 2);
}
float b_of(std::size_t rank, std::int64_t column, std::int64_t k) {
  return static_cast<float>((static_cast<std::int64_t>(rank) * 3 + column + k) % 4 - 1);
}

class HandoffOfRanks : public ::testing::Test {
 protected:
  struct Words {
    LoraSegment segments[kGroups], live[kGroups];
    ColdGroup groups[kMaxGroups];
    OfferDescriptor descriptor;
    std::int32_t rows[64];
    std::uint32_t ready[kGroups][kNumLoadParts], tickets[kMaxGroups], timed_out[kMaxGroups];
    LoraMatrix table[kGroups][kModules];
    float b[kWidth][kLoraRank];
    float x[64][kRanks * kIn];
    float out[64][kWidth];
  };
  struct Rank {
    std::unique_ptr<Device> device;
    std::unique_ptr<Stream> stream;
    std::unique_ptr<Communicator> end;
    Buffer memory, shown;
    Words words{};

    Words* there() const { return reinterpret_cast<Words*>(memory.data()); }
  };
  // Either mailbox has the rows of all groups.
  struct Mail {
    alignas(64) std::uint64_t doorbells[kGroups];
    alignas(64) std::uint64_t done[kWorkerSlots * 64];
    alignas(64) float x[64 * kRanks * kIn];
    alignas(64) float y[64 * kRanks * kWidth];
    alignas(64) float v[64 * kModules * kLoraRank];
  };

  HandoffOfRanks() {
    std::vector<Device*> devices;
    for (Rank& rank : ranks_) {
      rank.device = make_test_device(static_cast<int>(devices.size()));
      rank.stream = std::move(rank.device->create_stream("compute")).value();
      // Done in advance, because allocating may fail while the other rank waits.
      EXPECT_TRUE(rank.stream->prepare().ok());
      rank.memory = std::move(rank.device->allocate(sizeof(Words), "test")).value();
      devices.push_back(rank.device.get());
    }
    auto ends = std::move(devices.front()->connect(devices)).value();
    for (std::size_t r = 0; r < kRanks; ++r) {
      ranks_[r].end = std::move(ends[r]);
      ranks_[r].shown =
          std::move(ranks_[r].end->allocate_words(2 * kMaxColdGroups * 4, "test")).value();
    }
    make_state();
    mail_memory_ =
        std::move(devices.front()->allocate_pinned(2 * sizeof(Mail), "mailboxes")).value();
    std::memset(mail_memory_.data(), 0, mail_memory_.bytes());
    for (std::size_t r = 0; r < kRanks; ++r) lay_out(r);
  }

  // Marks the second mailbox as broken.
  void make_state() {
    state_ = std::move(ranks_[0].end->allocate_words(sizeof(HandoffState), "test")).value();
    HandoffState state{};
    state.broken[1] = 1;
    if (state_.host_visible()) {
      std::memcpy(state_.data(), &state, sizeof(state));
    } else {
      ranks_[0].stream->copy_to_device(state_.data(), &state, sizeof(state));
      EXPECT_TRUE(ranks_[0].stream->synchronize().ok());
    }
  }

  Mail& mail(std::int32_t index) { return reinterpret_cast<Mail*>(mail_memory_.data())[index]; }
  static std::int32_t count_of(std::size_t g) { return static_cast<std::int32_t>(g % 3 + 1); }

  void lay_out(std::size_t r) {
    Words& words = ranks_[r].words;
    std::int32_t first = 0;
    for (std::size_t g = 0; g < kGroups; ++g) {
      const auto slot = static_cast<std::int32_t>(g);
      const ColdCase& group = kCases[g];
      words.segments[g] = {slot, first, count_of(g)};
      words.groups[g] = {slot, group.mailbox, first, kGeneration, 1};
      first += count_of(g);
      words.ready[g][0] = group.has_a[r] ? kGeneration : kGeneration - 1;
      words.ready[g][1] = group.has_b[r] ? kGeneration : 0;
      std::int64_t column = 0;
      for (std::int32_t m = 0; m < kModules; ++m) {
        const auto b = reinterpret_cast<std::uint64_t>(ranks_[r].there()->b[column]);
        words.table[g][m] = {0, b, kLoraRank, kLoraRank};
        column += kOut[m];
      }
    }
    for (std::size_t g = kGroups; g < kMaxGroups; ++g) {  // beyond the step's groups
      words.groups[g] = {1 << 20, 77, 1 << 20, kGeneration, ~0ULL};
      words.tickets[g] = static_cast<std::uint32_t>(Ticket::cpu_xa);
    }
    rows_ = first;
    for (std::int32_t t = 0; t < rows_; ++t) words.rows[t] = rows_ - 1 - t;
    for (std::int64_t c = 0; c < kWidth; ++c) {
      for (std::int64_t k = 0; k < kLoraRank; ++k) words.b[c][k] = b_of(r, c, k);
    }
  }

  // Copies the next job's descriptor, and x, to the devices. The job has the first `num_groups`
  // groups.
  void next_job(std::size_t num_groups, bool is_part) {
    num_groups_ = num_groups;
    OfferDescriptor descriptor;
    descriptor.sequence = ++sequence_;
    for (std::size_t g = 0; g < kGroups; ++g) {
      if (kCases[g].cpu) descriptor.cpu_groups |= std::uint64_t{1} << g;
      if (kCases[g].xa) descriptor.xa_groups |= std::uint64_t{1} << g;
    }
    for (std::uint64_t& mask : descriptor.adapted) mask = ~0ULL;
    for (std::size_t r = 0; r < kRanks; ++r) {
      Rank& rank = ranks_[r];
      rank.words.descriptor = descriptor;
      const std::int64_t in = is_part ? kIn : kRanks * kIn;
      const std::int64_t first = is_part ? static_cast<std::int64_t>(r) * kIn : 0;
      float* const x = rank.words.x[0];
      for (std::int64_t t = 0; t < rows_; ++t) {
        for (std::int64_t c = 0; c < in; ++c) x[t * in + c] = x_of(t, first + c);
      }
      rank.stream->copy_to_device(rank.memory.data(), &rank.words, sizeof(Words));
      ASSERT_TRUE(rank.stream->synchronize().ok());
    }
  }

  OfferArgs offer(std::size_t r, bool is_part) {
    Words* const words = ranks_[r].there();
    OfferArgs args{};
    args.descriptor = &words->descriptor;
    args.rows = words->rows;
    args.segments = words->segments;
    args.num_segments = kGroups;
    args.live = words->live;
    args.groups = words->groups;
    args.num_groups = static_cast<std::int32_t>(num_groups_);
    args.max_count = 3;
    args.tickets = words->tickets;
    args.state = reinterpret_cast<HandoffState*>(state_.data());  // shared by all ranks
    args.communicator = ranks_[r].end.get();
    for (std::int32_t m = 0; m < 2; ++m) {
      Mail& box = mail(m);
      args.mailboxes[m] = {reinterpret_cast<std::byte*>(box.x),
                           box.doorbells,
                           1,
                           reinterpret_cast<const std::byte*>(box.y),
                           box.v,
                           box.done,
                           64,
                           kRanks * kIn,
                           kRanks * kWidth,
                           kModules * kLoraRank,
                           kModules * kLoraRank};
    }
    const std::int64_t in = is_part ? kIn : kRanks * kIn;
    args.x = TensorView(words->x, DType::f32, {rows_, in});
    args.x_is_part = is_part;
    args.shown = reinterpret_cast<std::uint32_t*>(ranks_[r].shown.data());
    args.ready = words->ready[0];
    args.slot_stride = kNumLoadParts;
    return args;
  }

  AcceptArgs accept(std::size_t r, const OfferArgs& offered) {
    Words* const words = ranks_[r].there();
    AcceptArgs args{};
    static_cast<HandoffJob&>(args) = offered;
    args.num_modules = kModules;
    const TensorView whole(words->out, DType::f32, {rows_, kWidth});
    args.out[0] = whole.slice_cols(0, kOut[0]);
    args.out[1] = whole.slice_cols(kOut[0], kOut[1]);
    args.table = words->table[0];
    args.slot_stride = kModules;
    args.is_sum = offered.x_is_part;
    args.is_whole = whole_;
    args.dtype = DType::f32;
    args.deadline_us = 30'000'000;
    args.timed_out = words->timed_out;
    args.any_xa = true;
    return args;
  }

  void enqueue(std::size_t r, bool is_part) {
    const OfferArgs offered = offer(r, is_part);
    ranks_[r].stream->offer(offered);
    ranks_[r].stream->accept(accept(r, offered));
  }

  // The worker of all groups: when a doorbell rings, the mailbox must contain all ranks' columns of
  // x.
  void work(bool is_part) {
    const SteadyClock clock;
    const TimePoint end = clock.now() + std::chrono::seconds(30);
    for (std::size_t g = 0; g < num_groups_; ++g) {
      Mail& box = mail(kCases[g].mailbox);
      std::uint64_t doorbell = 0;
      while (sequence_of(doorbell) != sequence_ && clock.now() < end) {
        // acquire: pairs with the offer's release of the doorbell
        doorbell = std::atomic_ref<std::uint64_t>(box.doorbells[g]).load(std::memory_order_acquire);
        std::this_thread::yield();
      }
      ASSERT_EQ(doorbell, doorbell_of(sequence_, kCases[g].want)) << "group " << g;
      const LoraSegment& segment = ranks_[0].words.segments[g];
      if (kCases[g].want != Ticket::cpu && kCases[g].want != Ticket::cpu_xa) continue;
      const std::int64_t outs = is_part || whole_ ? kWidth : kRanks * kWidth;
      for (std::int32_t r = 0; r < segment.count; ++r) {
        const std::int64_t row = rows_ - 1 - (segment.first + r);
        const float* const x = box.x + segment.first * kRanks * kIn + r * kRanks * kIn;
        for (std::int64_t c = 0; c < static_cast<std::int64_t>(kRanks) * kIn; ++c) {
          ASSERT_EQ(x[c], x_of(row, c)) << "group " << g << " row " << r << " column " << c;
        }
        float* const y = box.y + segment.first * static_cast<std::int64_t>(kRanks) * kWidth;
        for (std::int64_t c = 0; c < outs; ++c) y[r * outs + c] = y_of(row, c);
        constexpr std::int64_t kColumns = kModules * kLoraRank;
        float* const v = box.v + segment.first * kColumns;
        for (std::int64_t c = 0; c < kColumns; ++c) v[r * kColumns + c] = v_of(row, c);
      }
      std::atomic_ref<std::uint64_t>(box.done[g]).store(sequence_, std::memory_order_release);
    }
  }

  float want(std::size_t rank, std::size_t g, std::int64_t row, std::int64_t column, bool is_part) {
    if (is_part && rank > 0) return 0;
    const std::int32_t m = column < kOut[0] ? 0 : 1;
    if (kCases[g].want == Ticket::cpu) {
      if (is_part || whole_) return y_of(row, column);
      const auto r = static_cast<std::int64_t>(rank);
      return m == 0 ? y_of(row, r * kOut[0] + column)
                    : y_of(row, kRanks * kOut[0] + r * kOut[1] + (column - kOut[0]));
    }
    if (kCases[g].want != Ticket::cpu_xa) return 0;
    float sum = 0;
    for (std::int64_t k = 0; k < kLoraRank; ++k) {
      sum += v_of(row, m * kLoraRank + k) * b_of(rank, column, k);
    }
    return sum;
  }

  // Checks the contents of the devices and the mailboxes after an accept.
  void judge(bool is_part, const std::string& what) {
    for (std::size_t r = 0; r < kRanks; ++r) {
      auto got = std::make_unique<Words>();
      ranks_[r].stream->copy_to_host(got.get(), ranks_[r].memory.data(), sizeof(Words));
      const Status status = ranks_[r].stream->synchronize();
      ASSERT_TRUE(status.ok()) << status.message();
      for (std::size_t g = 0; g < kGroups; ++g) judge_group(*got, r, g, is_part, what);
      for (std::size_t g = num_groups_; g < kMaxGroups; ++g) {
        EXPECT_EQ(got->tickets[g], ranks_[r].words.tickets[g]) << what << " group " << g;
        EXPECT_EQ(got->timed_out[g], 0U) << what << " group " << g;
      }
    }
  }
  void judge_group(const Words& got, std::size_t r, std::size_t g, bool is_part,
                   const std::string& what) {
    const bool is_cold = g < num_groups_;
    const Ticket ticket = is_cold ? kCases[g].want : Ticket::gpu;
    EXPECT_EQ(got.live[g].count, ticket == Ticket::gpu ? count_of(g) : 0) << what << " group " << g;
    if (is_cold) {
      EXPECT_EQ(got.tickets[g], static_cast<std::uint32_t>(ticket)) << what << " group " << g;
      const bool tells = r == 0 || !is_part;
      EXPECT_EQ(got.timed_out[g], tells && ticket == Ticket::dropped ? 1U : 0U)
          << what << " group " << g;
    }
    for (std::int32_t t = 0; t < count_of(g); ++t) {
      const std::int32_t row = rows_ - 1 - (got.segments[g].first + t);
      for (std::int64_t c = 0; c < kWidth; ++c) {
        ASSERT_EQ(got.out[row][c], is_cold ? want(r, g, row, c, is_part) : 0)
            << what << " rank " << r << " group " << g << " column " << c;
      }
    }
  }

  static constexpr std::uint32_t kGeneration = 7;
  std::array<Rank, kRanks> ranks_;
  Buffer mail_memory_;
  Buffer state_;
  bool whole_ = false;  // every rank has the whole product
  std::int32_t rows_ = 0;
  std::size_t num_groups_ = kGroups;  // of the current job
  std::uint64_t sequence_ = 0;
};

// First x whole on every rank, and y split by columns; then x split by columns, and y a sum to
// which rank 0 adds.
TEST_F(HandoffOfRanks, GiveTheSameTicketsAndShareOutTheAnswers) {
  for (int round = 0; round < 8; ++round) {
    const bool is_part = round % 2 == 1;
    next_job(kGroups - static_cast<std::size_t>(round) / 2 % 5, is_part);
    std::thread worker([&] { work(is_part); });
    for (std::size_t r = 0; r < kRanks; ++r) enqueue(r, is_part);
    worker.join();
    judge(is_part, fmt::format("round {}", round));
    if (HasFailure()) return;
  }
}

TEST_F(HandoffOfRanks, GiveTheWholeAnswersToRanksThatHaveTheWholeProduct) {
  whole_ = true;
  for (int round = 0; round < 4; ++round) {
    next_job(kGroups - static_cast<std::size_t>(round), false);
    std::thread worker([&] { work(false); });
    for (std::size_t r = 0; r < kRanks; ++r) enqueue(r, false);
    worker.join();
    judge(false, fmt::format("round {}", round));
    if (HasFailure()) return;
  }
}

TEST_F(HandoffOfRanks, ServeAllJobsByOneRecordingEach) {
  std::array<std::array<std::unique_ptr<Graph>, 2>, kRanks> recordings;
  for (const bool is_part : {false, true}) {
    next_job(kGroups, is_part);  // loads kernels, which happens at their first use
    std::thread worker([&] { work(is_part); });
    for (std::size_t r = 0; r < kRanks; ++r) enqueue(r, is_part);
    worker.join();
    judge(is_part, "before the recording");
    for (std::size_t r = 0; r < kRanks; ++r) {
      ASSERT_TRUE(ranks_[r].stream->begin_recording().ok());
      enqueue(r, is_part);
      auto recorded = ranks_[r].stream->end_recording();
      ASSERT_TRUE(recorded.ok()) << recorded.status().message();
      recordings[r][is_part ? 1 : 0] = std::move(recorded).value();
    }
  }
  for (int round = 0; round < 16; ++round) {
    const bool is_part = round % 2 == 1;
    next_job(kGroups, is_part);
    std::thread worker([&] { work(is_part); });
    for (std::size_t r = 0; r < kRanks; ++r) {
      ranks_[r].stream->launch(*recordings[r][is_part ? 1 : 0]);
    }
    worker.join();
    judge(is_part, fmt::format("round {}", round));
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace tandem
