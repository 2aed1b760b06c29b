#include "engine/executor/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/log/log.h"
#include "scheduler/planning/coldstart/load_piece.h"

namespace tandem {
namespace {

constexpr std::size_t kAdapters = 4;
constexpr std::int32_t kRank = 64;
constexpr std::array<std::int32_t, 6> kStepRows = {2, 16, 64, 256, 1024, 2048};
constexpr std::array<std::int32_t, 4> kColdRows = {4, 16, 64, 256};  // of each adapter
constexpr std::int64_t kMostColdRows = 256;                          // of all adapters
constexpr int kTimes = 3;
constexpr std::chrono::seconds kWorkersStart{1};

struct PlannerOf {
  LayerChoice choice;
  HandoffPlan operator()(const CostModel& costs, const PlanRequest& request) const {
    HandoffPlan plan;
    for (const ColdAdapter& adapter : request.adapters) {
      plan.choices.emplace_back(adapter.layers.size(), choice);
    }
    predict(costs, request, plan);
    return plan;
  }
};

class Calibration {
 public:
  Calibration(Executor& executor, AdapterStore& store, PagePool& pool, const ModelSpec& config,
              const Clock& clock, const CalibrationOptions& options)
      : executor_(executor),
        handoff_(*executor.handoff()),
        store_(store),
        pool_(pool),
        config_(config),
        clock_(clock),
        options_(options),
        planner_(handoff_.plan_by(PlannerOf{LayerChoice::cpu})) {}

  ~Calibration() {
    executor_.tier().loads().first().stream().let_go();
    handoff_.plan_by(std::move(planner_));
    try {
      drop_adapters();
    } catch (const std::bad_alloc&) {  // idle adapters get evicted; the tier reports the rest
    }
    for (const PageId page : pages_) pool_.drop_reference(page);
    executor_.forget_counts();
  }
  Calibration(const Calibration&) = delete;
  Calibration& operator=(const Calibration&) = delete;

  Status prepare(Device& device, DType dtype) {
    TANDEM_ASSIGN(word_, device.allocate_pinned(sizeof(std::uint32_t), "calibration"));
    word() = 0;
    // The other half of the pool is for adapters.
    const auto tokens = std::min<std::int64_t>(
        options_.max_rows, pool_.shape().tokens_in(std::int64_t{pool_.num_free()} / 2));
    const std::int64_t pages = tokens / pool_.shape().page_tokens * pool_.shape().groups.count();
    for (std::int64_t i = 0; i < pages; ++i) {
      pages_.push_back(pool_.take_page());
    }
    const Adapter adapter = make_dummy_adapter(config_, dtype, std::min(kRank, options_.max_rank),
                                               {"q_proj", "k_proj", "v_proj"}, 1);
    for (std::size_t i = 0; i < kAdapters; ++i) {
      const std::string name = fmt::format("calibration-{}", i);
      if (const Status added = store_.add(name, adapter, false, false); !added) {
        log::info("calibrating with {} cold adapters: {}", i, added.message());
        break;
      }
      adapters_.push_back(store_.find(name));
    }
    return {};
  }

  Status run() {
    end_ = clock_.now() + duration_of(options_.seconds);
    TANDEM_TRY(time_loads());
    TANDEM_TRY(time_steps());
    if (adapters_.empty() || left() <= 0) return {};
    if (!await_workers()) {
      log::info("no CPU worker has started yet: their speed is measured when they start");
      return {};
    }
    for (int i = 0; i < kTimes; ++i) TANDEM_TRY(time_handovers());
    // Each size was measured only two or three times, on a machine that is still busy starting.
    handoff_.learner().be_optimistic();
    return {};
  }

 private:
  std::uint32_t& word() { return *reinterpret_cast<std::uint32_t*>(word_.data()); }
  double left() const { return seconds_between(clock_.now(), end_); }
  std::int32_t pages_of(std::int32_t rows) const {
    return pool_.shape().table_pages(rows) * pool_.shape().groups.count();
  }
  // True if a step of `count` prompts of `rows` rows each fits.
  bool has_room(std::size_t count, std::int32_t rows) const {
    return rows <= options_.max_len && static_cast<std::int64_t>(count) <= options_.max_sequences &&
           static_cast<std::int64_t>(count) * rows <= options_.max_rows &&
           count * static_cast<std::size_t>(pages_of(rows)) <= pages_.size();
  }

  void drop_adapters() {
    for (const AdapterLease& adapter : adapters_) (void)store_.unload(adapter->name());
    adapters_.clear();
    (void)executor_.tier().finish_loads();  // the next user of the device sees a failure
    executor_.tier().room().evict_idle();
    (void)executor_.tier().poll();
  }

  // Returns false if the device has no room.
  bool load(std::size_t count, bool b_first) {
    DeviceTier::Turn turn(executor_.tier());
    for (std::size_t i = 0; i < count; ++i) {
      if (turn.reserve(adapters_[i]) != DeviceTier::Start::on_its_way) return false;
    }
    std::vector<LoadPiece> order;
    for (std::int32_t layer = 0; b_first && layer < config_.num_layers(); ++layer) {
      for (std::size_t i = 0; i < count; ++i) {
        order.push_back({static_cast<std::int32_t>(i), layer, PieceKind::b});
      }
    }
    turn.enqueue(order);
    return true;
  }
  Status unload() {
    TANDEM_TRY(executor_.tier().finish_loads());
    executor_.tier().room().evict_idle();
    return executor_.tier().poll();
  }

  // Runs a prompt of `rows` tokens with each of the first `count` adapters; for 0, one without.
  Status step(std::size_t count, std::int32_t rows) {
    StepPlan plan;
    const std::int32_t pages = pages_of(rows);
    for (std::size_t i = 0; i < std::max<std::size_t>(count, 1); ++i) {
      StepPlan::Entry entry;
      entry.id = i;
      entry.tokens = {static_cast<std::int32_t>(plan.tokens.size()), rows};
      entry.pages = {static_cast<std::int32_t>(plan.pages.size()), pages};
      entry.samples = {static_cast<std::int32_t>(plan.samples.size()), 1};
      if (i < count) entry.adapter = executor_.tier().slot(*adapters_[i]);
      for (std::int32_t t = 0; t < rows; ++t) {
        plan.tokens.push_back(static_cast<TokenId>((t * 37 + 5) % config_.vocab_size));
      }
      const auto first = pages_.begin() + static_cast<std::ptrdiff_t>(plan.pages.size());
      plan.pages.insert(plan.pages.end(), first, first + pages);
      plan.samples.push_back({rows - 1, {}});
      plan.entries.push_back(entry);
    }
    executor_.enqueue(plan);
    Status status = executor_.wait().status;
    executor_.times().rest();
    return status;
  }

  Status time_loads() {
    for (int i = 0; i < kTimes && !adapters_.empty() && left() > 0; ++i) {
      if (!load(adapters_.size(), false)) {
        log::info("the device has no room to time loads of {} adapters", adapters_.size());
        return {};
      }
      TANDEM_TRY(executor_.tier().finish_loads());
      if (has_room(1, 1)) TANDEM_TRY(step(0, 1));  // the load is timed when this step has ended
      TANDEM_TRY(unload());
    }
    return {};
  }

  // Begins with the fewest rows, and ends before a size would take too much of the time.
  Status time_steps() {
    if (!has_room(1, kStepRows.front())) return {};
    TANDEM_TRY(step(0, kStepRows.front()));  // the first step takes longer than any other
    const double share = left() / 2;
    double last_s = 0;
    std::int32_t last_rows = kStepRows.front();
    for (const std::int32_t rows : kStepRows) {
      const double expected_s = last_s * std::max(1.0, static_cast<double>(rows) / last_rows);
      if (!has_room(1, rows) || kTimes * expected_s > left() - share) return {};
      for (int i = 0; i < kTimes; ++i) {
        const TimePoint begin = clock_.now();
        TANDEM_TRY(step(0, rows));
        last_s = seconds_between(begin, clock_.now());
      }
      last_rows = rows;
    }
    return {};
  }

  // Returns false if no worker started in time.
  bool await_workers() const {
    const TimePoint end = std::min(end_, clock_.now() + kWorkersStart);
    while (handoff_.live_workers() == 0 && clock_.now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return handoff_.live_workers() > 0;
  }

  // Waits for B before a step, as a layer's wait for its B is no measure of the workers.
  void await_b(std::size_t count) {
    const auto is_there = [&](const AdapterLease& adapter) {
      const auto arriving = executor_.tier().loads().first().in_flight().arriving(*adapter);
      return !arriving || std::ranges::all_of(arriving->b_parts, [](const auto& event) {
        return event != nullptr && event->passed();
      });
    };
    while (left() > 0 &&
           !std::all_of(adapters_.begin(), adapters_.begin() + static_cast<std::ptrdiff_t>(count),
                        is_there)) {
      executor_.tier().loads().feed();
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }

  Status time_handovers() {
    for (const std::size_t count : {std::size_t{1}, adapters_.size()}) {
      for (const std::int32_t rows : kColdRows) {
        for (const LayerChoice choice : {LayerChoice::cpu, LayerChoice::cpu_xa}) {
          TANDEM_TRY(time_handover(count, rows, choice));
        }
      }
    }
    return {};
  }

  Status time_handover(std::size_t count, std::int32_t rows, LayerChoice choice) {
    const std::int64_t all = static_cast<std::int64_t>(count) * rows;
    if (all == 0 || all > kMostColdRows || !has_room(count, rows) || left() <= 0) return {};
    executor_.tier().loads().first().stream().hold(&word(), ++held_);
    handoff_.plan_by(PlannerOf{choice});
    Status status;
    if (load(count, choice == LayerChoice::cpu_xa)) {
      if (choice == LayerChoice::cpu_xa) await_b(count);
      status = step(count, rows);
    }
    executor_.tier().loads().first().stream().let_go();
    TANDEM_TRY(status);
    return unload();
  }

  Executor& executor_;
  Handoff& handoff_;
  AdapterStore& store_;
  PagePool& pool_;
  const ModelSpec& config_;
  const Clock& clock_;
  const CalibrationOptions options_;
  TimePoint end_{};
  HandoffOptions::Planner planner_;
  Buffer word_;             // held loads wait until this equals held_
  std::uint32_t held_ = 0;  // another number for each step
  std::vector<PageId> pages_;
  std::vector<AdapterLease> adapters_;
};

}  // namespace

Status calibrate(Executor& executor, AdapterStore& store, Device& device, PagePool& pool,
                 const ModelSpec& config, DType dtype, const Clock& clock,
                 const CalibrationOptions& options) {
  if (executor.handoff() == nullptr) return {};
  const TimePoint begin = clock.now();
  {
    Calibration calibration(executor, store, pool, config, clock, options);
    TANDEM_TRY(calibration.prepare(device, dtype));
    TANDEM_TRY(calibration.run());
  }
  const CostModel& costs = executor.handoff()->learner().costs();
  log::info("costs of this machine measured in {:.1f} s: link {:.1f} GB/s, a layer {:.0f} us",
            seconds_between(begin, clock.now()), costs.link_bytes_per_s / costs.factors.link * 1e-9,
            costs.layer_time(1) * 1e6);
  return {};
}

}  // namespace tandem
