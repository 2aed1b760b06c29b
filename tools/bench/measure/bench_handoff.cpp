#include "tools/bench/measure/bench_handoff.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/threads/thread_cpus.h"
#include "engine/loader/random_fill.h"
#include "shm/mailbox.h"

namespace tandem {
namespace {

constexpr int kModules = LoraArgs::kMaxModules;
constexpr DType kType = DType::bf16;
constexpr int kChecks = 20;
constexpr std::size_t kLoadBytes = std::size_t{64} << 20;
constexpr std::size_t kPieceBytes = std::size_t{3} << 20;  // a layer of a rank-64 qkv adapter of 7B
constexpr std::uint32_t kDeadlineUs = 2'000'000;

std::uint16_t add(std::uint16_t a, std::uint16_t b) {
  return from_float<bf16>(to_float(bf16{a}) + to_float(bf16{b})).bits;
}

// The worker: a thread that answers the doorbells of one group.
class Echo {
 public:
  // `answers`: it computes the rows; else they are in the mailbox already.
  Echo(Mailbox& mailbox, const HandoffBench& bench, std::int32_t rows, bool answers,
       std::uint64_t first, int count)
      : mailbox_(mailbox), bench_(bench), rows_(rows), answers_(answers), first_(first) {
    rung_.reserve(static_cast<std::size_t>(count));
    thread_ = std::thread([this, count] { run(count); });
  }
  ~Echo() { join(); }
  Echo(const Echo&) = delete;
  Echo& operator=(const Echo&) = delete;

  // Returns the times at which the doorbells were seen.
  const std::vector<TimePoint>& join() {
    stop_.store(true, std::memory_order_relaxed);  // relaxed: carries no other data
    if (thread_.joinable()) thread_.join();
    return rung_;
  }
  void all_enqueued() { enqueued_.store(true, std::memory_order_release); }
  // Waits for all doorbells; false if they did not come in time.
  bool all_rung(int count) {
    const TimePoint end = clock_.now() + std::chrono::seconds(10);
    while (heard_.load(std::memory_order_acquire) < count) {
      if (clock_.now() > end) return false;
      // Sleeps instead of spinning: a spinning thread would take a core from one of the two timed
      // sides on a machine with few cores.
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    return true;
  }

 private:
  void run(int count) {
    if (bench_.echo_cpu >= 0) pin_this_thread({&bench_.echo_cpu, 1}, "the thread that echoes");
    WorkerSlot& worker_slot = mailbox_.worker_slot(0);
    for (int i = 0; i < count; ++i) {
      const std::uint64_t sequence = first_ + static_cast<std::uint64_t>(i);
      // acquire: pairs with the device's release of the doorbell
      for (int looks = 1;
           sequence_of(mailbox_.doorbells()[0].value.load(std::memory_order_acquire)) != sequence;
           ++looks) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
        if (looks % 4096 != 0) continue;
        if (stop_.load(std::memory_order_relaxed)) return;
        std::this_thread::yield();
      }
      if (answers_) write_answer(sequence);
      // The first answer waits until all trips are enqueued, so that no other trip includes
      // launches.
      while (i == 0 && !enqueued_.load(std::memory_order_acquire)) std::this_thread::yield();
      // release: pairs with the accept's acquire
      worker_slot.done[0].store(sequence, std::memory_order_release);
      rung_.push_back(clock_.now());
      heard_.store(i + 1, std::memory_order_release);
    }
  }

  // y is three times x, each row rotated by the job's number, so that the answers of two jobs
  // differ.
  void write_answer(std::uint64_t sequence) {
    const auto width = static_cast<std::size_t>(bench_.width);
    const std::size_t descriptor = sequence * 7 % width;
    const auto* x = reinterpret_cast<const std::uint16_t*>(mailbox_.x_of(0));
    auto* y = reinterpret_cast<std::uint16_t*>(mailbox_.y_of(0));
    for (std::int32_t r = 0; r < rows_; ++r) {
      for (int m = 0; m < kModules; ++m) {
        std::copy(x + descriptor, x + width, y);
        std::copy(x, x + descriptor, y + (width - descriptor));
        y += width;
      }
      x += width;
    }
  }

  Mailbox& mailbox_;
  const HandoffBench& bench_;
  const std::int32_t rows_;
  const bool answers_;
  const std::uint64_t first_;
  const SteadyClock clock_{};
  std::vector<TimePoint> rung_;
  std::atomic<int> heard_ = 0;
  std::atomic<bool> enqueued_ = false;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

class HandoffTimer {
 public:
  HandoffTimer(Device& device, const HandoffBench& bench) : device_(device), bench_(bench) {}

  Status prepare() {
    const auto rows = static_cast<std::uint32_t>(bench_.rows);
    MailboxShape shape;
    shape.dtype = kType;
    shape.num_worker_slots = 1;
    shape.max_rows = rows;
    shape.max_in = static_cast<std::uint32_t>(bench_.width);
    shape.max_out = static_cast<std::uint32_t>(kModules * bench_.width);
    shape.max_rank = 8;
    TANDEM_ASSIGN(Mailbox mailbox, Mailbox::create(shape, -1));
    mailbox_ = std::make_unique<Mailbox>(std::move(mailbox));
    for (const ShmRegion* region : {&mailbox_->inbox_region(), &mailbox_->outbox_region()}) {
      TANDEM_ASSIGN(Buffer pinned, device_.pin(region->data(), region->bytes(), "a mailbox"));
      pinned_.push_back(std::move(pinned));
    }
    TANDEM_ASSIGN(stream_, device_.create_stream("compute"));
    TANDEM_ASSIGN(load_stream_, device_.create_stream("adapter load"));
    const std::size_t elements = static_cast<std::size_t>(bench_.rows * bench_.width);
    TANDEM_ASSIGN(x_, device_.allocate(elements * 2, "x"));
    TANDEM_ASSIGN(out_, device_.allocate(elements * 2 * kModules, "outputs"));
    TANDEM_ASSIGN(host_, device_.allocate_pinned(elements * 2 * (kModules + 1), "x and outputs"));
    TANDEM_ASSIGN(state_, device_.allocate(sizeof(DeviceState), "the handoff's state"));
    TANDEM_ASSIGN(descriptors_,
                  device_.allocate(kMostTrips * sizeof(OfferDescriptor), "descriptors"));
    TANDEM_ASSIGN(host_descriptors_,
                  device_.allocate_pinned(kMostTrips * sizeof(OfferDescriptor), "descriptors"));
    TANDEM_ASSIGN(load_from_, device_.allocate_pinned(kLoadBytes, "an adapter"));
    TANDEM_ASSIGN(load_to_, device_.allocate(kLoadBytes, "an adapter"));
    random_fill(1, 0, elements * (kModules + 1), 0, 1, kType, host_.data());
    random_fill(2, 0, kLoadBytes / 2, 0, 1, kType, load_from_.data());
    std::memcpy(mailbox_->y_of(0), host_.data() + elements * 2, elements * 2 * kModules);
    stream_->copy_to_device(x_.data(), host_.data(), elements * 2);
    return {};
  }

  // Checks answers of 1 row and of all rows bit by bit.
  Status check() {
    for (const std::int32_t rows : {1, bench_.rows}) {
      TANDEM_TRY(describe(rows));
      const auto size = static_cast<std::size_t>(rows * bench_.width);
      const auto width = static_cast<std::size_t>(bench_.width);
      const auto* x = reinterpret_cast<const std::uint16_t*>(host_.data());
      auto* got = reinterpret_cast<std::uint16_t*>(host_.data()) + host_.bytes() / 8;
      std::vector<std::uint16_t> want(got, got + size * kModules);
      stream_->copy_to_device(out_.data(), got, size * 2 * kModules);
      for (int i = 0; i < kChecks; ++i) {
        const std::uint64_t job = sequence_ + 1;
        TANDEM_TRY(trips(rows, 1, true, nullptr));
        stream_->copy_to_host(got, out_.data(), size * 2 * kModules);
        TANDEM_TRY(stream_->synchronize());
        for (std::size_t at = 0; at < want.size(); ++at) {
          const std::size_t r = at / (width * kModules);
          want[at] = add(want[at], x[r * width + (at + job * 7) % width]);
        }
        if (std::memcmp(want.data(), got, want.size() * 2) != 0) {
          return error(StatusCode::internal,
                       "round trip {} of {} rows came back wrong: nothing was timed", i, rows);
        }
      }
    }
    return {};
  }

  // Times from one doorbell to the next, in us.
  Status time(std::int32_t rows, bool during_load, Samples& samples) {
    TANDEM_TRY(describe(rows));
    constexpr int kBatch = kMostTrips - 2;
    for (int batch = -1; batch * kBatch < bench_.rounds; ++batch) {  // batch -1 warms up
      std::unique_ptr<Event> loaded;
      if (during_load) TANDEM_TRY(start_load(loaded));
      std::vector<TimePoint> rung;
      TANDEM_TRY(trips(rows, kMostTrips, false, &rung));
      const bool too_short = during_load && loaded->passed();
      if (during_load) TANDEM_TRY(load_stream_->synchronize());
      if (too_short) {  // a longer load is needed: other processes had the cores
        if (loads_ >= kMostLoads) {
          return error(StatusCode::internal, "the load ended before the round trips beside it");
        }
        loads_ *= 2;
        --batch;
        continue;
      }
      for (std::size_t i = 2; batch >= 0 && i < rung.size(); ++i) {
        samples.values.push_back(seconds_between(rung[i - 1], rung[i]) * 1e6);
      }
    }
    return {};
  }

  // Bytes per second of long copies; the median of a few.
  Result<std::pair<double, double>> link_speed() {
    std::vector<double> in;
    std::vector<double> out;
    const SteadyClock clock;
    for (int i = -2; i < bench_.link_rounds; ++i) {
      for (std::vector<double>* speeds : {&in, &out}) {
        TANDEM_TRY(load_stream_->synchronize());
        const TimePoint start = clock.now();
        for (int copy = 0; copy < 4; ++copy) {
          if (speeds == &in) {
            load_stream_->copy_to_device(load_to_.data(), load_from_.data(), kLoadBytes);
          } else {
            load_stream_->copy_to_host(load_from_.data(), load_to_.data(), kLoadBytes);
          }
        }
        TANDEM_TRY(load_stream_->synchronize());
        const double speed = 4.0 * kLoadBytes / seconds_between(start, clock.now());
        if (i >= 0) speeds->push_back(speed);
      }
    }
    for (std::vector<double>* speeds : {&in, &out}) std::sort(speeds->begin(), speeds->end());
    return std::pair(in[in.size() / 2], out[out.size() / 2]);
  }

 private:
  struct DeviceState {
    std::int32_t rows[512];
    LoraSegment segment, live;
    ColdGroup group;
    HandoffState state;
    std::uint32_t ready[kNumLoadParts];
    std::uint32_t ticket, timed_out;
    LoraMatrix table[kModules];
  };

  Status describe(std::int32_t rows) {
    TANDEM_CHECK(rows <= 512, "{} rows", rows);
    DeviceState state{};
    std::iota(state.rows, state.rows + rows, 0);
    state.segment = {0, 0, rows};
    state.group = {0, 0, 0, 1, 1};
    stream_->copy_to_device(state_.data(), &state, sizeof state);
    TANDEM_TRY(stream_->synchronize());
    auto* on_device = reinterpret_cast<DeviceState*>(state_.data());
    MailboxView view;
    view.x = mailbox_->x_of(0);
    view.doorbells = reinterpret_cast<std::uint64_t*>(mailbox_->doorbells());
    view.doorbell_stride = sizeof(Doorbell) / 8;
    view.y = mailbox_->y_of(0);
    view.v = mailbox_->v_of(0);
    view.done = reinterpret_cast<const std::uint64_t*>(mailbox_->worker_slot(0).done);
    view.worker_slot_stride = sizeof(WorkerSlot) / 8;
    view.max_in = mailbox_->shape().max_in;
    view.max_out = mailbox_->shape().max_out;
    view.max_v = mailbox_->shape().max_rank * kModules;
    view.v_row = mailbox_->v_row();
    offer_ = {};
    offer_.x = {x_.data(), kType, {rows, bench_.width}};
    offer_.rows = on_device->rows;
    offer_.segments = &on_device->segment;
    offer_.num_segments = 1;
    offer_.live = &on_device->live;
    offer_.groups = &on_device->group;
    offer_.num_groups = 1;
    offer_.ready = on_device->ready;
    offer_.slot_stride = kNumLoadParts;
    offer_.mailboxes[0] = view;
    offer_.tickets = &on_device->ticket;
    offer_.state = &on_device->state;
    offer_.max_count = rows;
    accept_ = {};
    accept_.num_modules = kModules;
    const TensorView out(out_.data(), kType, {rows, kModules * bench_.width});
    for (int m = 0; m < kModules; ++m) {
      accept_.out[m] = out.slice_cols(m * bench_.width, bench_.width);
    }
    accept_.dtype = kType;
    accept_.rows = on_device->rows;
    accept_.segments = &on_device->segment;
    accept_.groups = &on_device->group;
    accept_.num_groups = 1;
    accept_.tickets = &on_device->ticket;
    accept_.mailboxes[0] = view;
    accept_.deadline_us = kDeadlineUs;
    accept_.state = &on_device->state;
    accept_.timed_out = &on_device->timed_out;
    accept_.table = on_device->table;
    accept_.slot_stride = kModules;
    accept_.max_count = rows;
    return {};
  }

  // Copies an OfferDescriptor for each of the next `count` trips to the device, because all trips
  // are enqueued before the first ends.
  void make_descriptors(int count) {
    auto* descriptors = reinterpret_cast<OfferDescriptor*>(host_descriptors_.data());
    for (int i = 0; i < count; ++i) {
      descriptors[i] = {};
      descriptors[i].sequence = sequence_ + 1 + static_cast<std::uint64_t>(i);
      descriptors[i].cpu_groups = 1;
      std::fill_n(descriptors[i].adapted, kModules, 1);
    }
    stream_->upload(descriptors_.data(), descriptors,
                    static_cast<std::size_t>(count) * sizeof(OfferDescriptor));
  }

  // Makes `count` round trips, one after another.
  Status trips(std::int32_t rows, int count, bool answers, std::vector<TimePoint>* rung) {
    Echo echo(*mailbox_, bench_, rows, answers, sequence_ + 1, count);
    make_descriptors(count);
    sequence_ += static_cast<std::uint64_t>(count);
    for (int i = 0; i < count; ++i) {
      offer_.descriptor = accept_.descriptor =
          reinterpret_cast<const OfferDescriptor*>(descriptors_.data()) + i;
      stream_->offer(offer_);
      stream_->accept(accept_);
    }
    echo.all_enqueued();
    const bool all = echo.all_rung(count);
    TANDEM_TRY(stream_->synchronize());
    if (!all) return error(StatusCode::internal, "a doorbell did not ring within 10 s");
    if (rung != nullptr) *rung = echo.join();
    std::uint32_t timed_out = 0;
    stream_->copy_to_host(&timed_out, accept_.timed_out, sizeof timed_out);
    TANDEM_TRY(stream_->synchronize());
    if (timed_out != 0) return error(StatusCode::internal, "an answer came after the deadline");
    return {};
  }

  // Starts a load and returns once it runs.
  Status start_load(std::unique_ptr<Event>& loaded) {
    const auto started = device_.create_event();
    loaded = device_.create_event();
    for (int load = 0; load < loads_; ++load) {
      for (std::size_t at = 0; at < kLoadBytes; at += kPieceBytes) {
        load_stream_->copy_to_device(load_to_.data() + at, load_from_.data() + at,
                                     std::min(kPieceBytes, kLoadBytes - at));
        if (load == 0 && at == 0) load_stream_->record(*started);
      }
    }
    load_stream_->record(*loaded);
    started->synchronize();
    return {};
  }

  static constexpr int kMostTrips = 22;  // enqueued one behind the other
  static constexpr int kMostLoads = 256;
  int loads_ = 8;  // copies in a row; together longer than a batch of round trips

  Device& device_;
  const HandoffBench& bench_;
  std::unique_ptr<Mailbox> mailbox_;
  std::vector<Buffer> pinned_;
  Buffer x_, out_, host_, state_, descriptors_, host_descriptors_, load_from_, load_to_;
  std::unique_ptr<Stream> stream_, load_stream_;  // last, to be destroyed before what they use
  OfferArgs offer_{};
  AcceptArgs accept_{};
  std::uint64_t sequence_ = 0;
};

}  // namespace

Status measure_handoff(Device& device, BenchReport& report, const HandoffBench& bench) {
  HandoffTimer timer(device, bench);
  TANDEM_TRY(timer.prepare());
  TANDEM_TRY(timer.check());
  report.fact("checked: round trips of 1 row and of all, with answers that differ",
              fmt::format("{} each, to the bit", kChecks));
  TANDEM_ASSIGN(const auto speed, timer.link_speed());
  const auto [to_device, to_host] = speed;
  const double x_bytes = static_cast<double>(bench.rows * bench.width) * 2;
  const double wire_us = (x_bytes / to_host + kModules * x_bytes / to_device) * 1e6;
  report.fact("link, long copies to the device and back",
              fmt::format("{:.1f} and {:.1f} GB/s", to_device / 1e9, to_host / 1e9));
  report.fact("the wire alone", fmt::format("{:.1f} us", wire_us));

  for (const std::int32_t rows : {1, 8}) {
    Samples samples{
        fmt::format("handoff round trip, {} row{}", rows, rows == 1 ? "" : "s"), "us", {}};
    TANDEM_TRY(timer.time(rows, false, samples));
    report.add(samples);
  }
  for (const bool during_load : {false, true}) {
    Samples samples{fmt::format("handoff round trip, {} rows{}", bench.rows,
                                during_load ? ", during an adapter load" : ""),
                    "us",
                    {}};
    TANDEM_TRY(timer.time(bench.rows, during_load, samples));
    report.add(samples);
    report.add({"C6", samples.name + ", over the wire's time", samples.median() / wire_us, "",
                Must::be_at_most, during_load ? 3.0 : 1.25});
  }
  return {};
}

struct RoundTrips::Impl {
  Impl(Device& device, const HandoffBench& described) : bench(described), timer(device, bench) {}

  HandoffBench bench;
  HandoffTimer timer;
};

RoundTrips::RoundTrips(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RoundTrips::~RoundTrips() = default;

Result<std::unique_ptr<RoundTrips>> RoundTrips::create(Device& device, std::int64_t width,
                                                       std::int32_t most_rows, int echo_cpu) {
  HandoffBench bench;
  bench.rows = most_rows;
  bench.width = width;
  bench.echo_cpu = echo_cpu;
  auto impl = std::make_unique<Impl>(device, bench);
  TANDEM_TRY(impl->timer.prepare());
  return std::unique_ptr<RoundTrips>(new RoundTrips(std::move(impl)));
}

Result<double> RoundTrips::time(std::int32_t rows, int rounds) {
  impl_->bench.rounds = rounds;
  Samples samples{"", "us", {}};
  TANDEM_TRY(impl_->timer.time(rows, false, samples));
  return samples.median() / 1e6;
}

}  // namespace tandem
