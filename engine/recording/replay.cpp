#include "engine/recording/replay.h"

#include <algorithm>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/file/folder.h"
#include "engine/adapters/adapter_store.h"
#include "engine/executor/executor.h"
#include "engine/executor/plan_check.h"
#include "engine/memory/page_pool.h"
#include "engine/memory/pool_layout.h"
#include "engine/recording/recording_reader.h"

namespace tandem {
namespace {

// A summary of a recording, which is read once from end to end.
struct Survey {
  std::map<std::string, RecordedAdapter> adapters;  // by digest
};

// The model has these groups of layers; recordings do not say so.
PlanLimits limits_of(const RecordedSettings& settings, const ModelSpec& spec,
                     const KvGroups& groups) {
  PlanLimits limits{settings.model, settings.step, settings.num_pages, settings.page_tokens,
                    settings.vocab_size};
  // Inputs by layer are of the base's tokens alone.
  if (spec.layer_input_size() == 0) limits.vocab_size += settings.model.max_added_tokens;
  limits.step.page_groups = groups.count();
  if (groups.windowed > 0) ++limits.num_pages;
  return limits;
}

Status check_slots(const StepPlan& plan, const std::map<SlotId, std::string>& slots) {
  for (const StepPlan::Entry& entry : plan.entries) {
    const SlotId slot = entry.adapter.slot;
    if (slot == SlotId() || slots.contains(slot)) continue;
    return invalid("slot {} holds no adapter", slot.value());
  }
  return {};
}

// A plan whose result has not been read yet.
struct WaitingPlan {
  StepPlan plan;
  bool has_masks;  // the masks that it uses are there
};

// How many words they need depends on the adapters: Replay::run() compares it.
Status check_masks(std::deque<WaitingPlan>& waiting) {
  if (waiting.empty() || waiting.back().has_masks) return invalid("masks of no step");
  waiting.back().has_masks = true;
  return {};
}

// Checks the result of the oldest plan without one.
Status check_result(const RecordedResult& result, std::deque<WaitingPlan>& waiting) {
  if (waiting.empty()) return invalid("a result of no step");
  const StepPlan& plan = waiting.front().plan;
  if (result.ok && !waiting.front().has_masks) return invalid("a result of a step without masks");
  const std::size_t tokens = result.ok ? plan.samples.size() : 0;
  if (result.tokens.size() != tokens || result.is_stale.size() != plan.entries.size()) {
    return invalid("{} tokens and {} entries, not {} and {}", result.tokens.size(),
                   result.is_stale.size(), tokens, plan.entries.size());
  }
  waiting.pop_front();
  return {};
}

Result<Survey> survey(RecordingReader reader, const ModelSpec& spec, const KvGroups& groups) {
  Survey found;
  const PlanLimits limits = limits_of(reader.settings(), spec, groups);
  std::map<SlotId, std::string> slots;
  std::deque<WaitingPlan> waiting;
  std::int32_t samples_before = 0;
  for (std::int64_t number = 1;; ++number) {
    TANDEM_ASSIGN(RecordingReader::Record record, reader.next());
    Status status;
    if (const auto* adapter = std::get_if<RecordedAdapter>(&record)) {
      slots[adapter->slot] = adapter->digest;
      if (!adapter->slot.valid()) status = invalid("an adapter in slot {}", adapter->slot.value());
      found.adapters.emplace(adapter->digest, *adapter);
    } else if (auto* plan = std::get_if<StepPlan>(&record)) {
      if (!waiting.empty() && !waiting.back().has_masks) {
        return invalid("record {}: a step before has no masks", number);
      }
      status = check_plan(*plan, limits, samples_before);
      if (status.ok()) status = check_slots(*plan, slots);
      samples_before = static_cast<std::int32_t>(plan->samples.size());
      const bool has_masks = plan->num_masks == 0;
      waiting.push_back({std::move(*plan), has_masks});
      if (waiting.size() > kMaxStepsInFlight) status = invalid("a step whose result is missing");
    } else if (std::holds_alternative<RecordedMasks>(record)) {
      status = check_masks(waiting);
    } else if (const auto* result = std::get_if<RecordedResult>(&record)) {
      // Without its masks the step sampled nothing that the next plan could use.
      if (waiting.size() == 1 && !waiting.front().has_masks) samples_before = 0;
      status = check_result(*result, waiting);
    } else {
      return found;
    }
    if (!status) return status.with_context(fmt::format("record {}", number));
  }
}

Status check_model(const RecordedSettings& settings, const ModelSpec& spec) {
  if (settings.hidden_size != spec.hidden_size || settings.num_layers != spec.num_layers() ||
      settings.vocab_size != spec.vocab_size) {
    return invalid(
        "the steps are of a model with {} layers of {} and {} tokens, this one has {} of {} and "
        "{}; name theirs",
        settings.num_layers, settings.hidden_size, settings.vocab_size, spec.num_layers(),
        spec.hidden_size, spec.vocab_size);
  }
  if (settings.model.max_positions > spec.max_position_embeddings) {
    return invalid("the steps are of up to {} positions, the model has {}",
                   settings.model.max_positions, spec.max_position_embeddings);
  }
  return {};
}

class Replay {
 public:
  Replay(RecordedSettings settings, const ModelSpec& spec, const PoolLayout& layout)
      : settings_(std::move(settings)), spec_(spec), layout_(layout) {}
  ~Replay() {
    for (const PageId page : held_) pool_->drop_reference(page);
  }
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;

  Status set_up(const Survey& found, const WeightSource& weights, Device& device,
                const Clock& clock, const LoadProgress& progress) {
    TANDEM_ASSIGN(std::vector<Adapter> adapters, load_adapters(found));
    std::int64_t pages = settings_.num_pages;
    AdapterStoreOptions store;
    store.max_adapters = std::max<std::int32_t>(1, static_cast<std::int32_t>(adapters.size()));
    store.host_tier_bytes = 4096;
    store.max_added_tokens = settings_.model.max_added_tokens;
    for (const Adapter& adapter : adapters) {
      const std::int64_t chunks = layout_.chunks_for(adapter.num_bytes);
      pages += (chunks + layout_.chunks_per_page - 1) / layout_.chunks_per_page;
      store.host_tier_bytes += (adapter.num_bytes + 8191) / 4096 * 4096;
    }
    TANDEM_TRY(make_pool(pages, device));
    TANDEM_ASSIGN(store_, AdapterStore::create(device, spec_, settings_.dtype, store));
    ExecutorOptions options;
    options.model = settings_.model;
    options.step = settings_.step;
    options.step.page_groups = layout_.groups.count();
    options.max_device_adapters = static_cast<std::int32_t>(adapters.size());
    options.max_graph_batch = settings_.max_graph_batch;
    Device* const one = &device;
    TANDEM_ASSIGN(executor_, Executor::create(options, spec_, weights, settings_.dtype, {&one, 1},
                                              *pool_, store_->host_tier(), clock, progress));
    return place_adapters(std::move(adapters));
  }

  void assign(const RecordedAdapter& adapter) { slots_[adapter.slot] = adapter.digest; }

  // Runs the plan with the masks that it uses and returns the sampled tokens. Fills in the step's
  // other figures.
  Result<std::vector<TokenId>> run(StepPlan plan, std::span<const std::uint32_t> masks,
                                   ReplayedStep& step) {
    for (StepPlan::Entry& entry : plan.entries) {
      if (entry.adapter.slot == SlotId()) continue;
      entry.adapter = executor_->tier().slot(*store_->find(slots_.at(entry.adapter.slot)));
    }
    // The null page follows the pages of the pool, which was smaller where this was recorded.
    std::ranges::replace(plan.pages, PageId(settings_.num_pages), pool_->shape().null_page());
    step.rows = static_cast<std::int32_t>(plan.tokens.size());
    step.entries = static_cast<std::int32_t>(plan.entries.size());
    executor_->enqueue(plan);
    if (const std::span<std::uint32_t> awaited = executor_->masks(); !awaited.empty()) {
      if (masks.size() != awaited.size()) {
        return invalid("step {}: {} words of masks, not {}", step.number, masks.size(),
                       awaited.size());
      }
      std::copy(masks.begin(), masks.end(), awaited.begin());
      executor_->sample();
    }
    const StepResult result = executor_->wait();
    TANDEM_TRY(result.status);
    step.seconds = result.seconds;
    std::vector<TokenId> tokens;
    for (const SampledToken& sample : result.samples) tokens.push_back(sample.token);
    return tokens;
  }

 private:
  Result<std::vector<Adapter>> load_adapters(const Survey& found) const {
    std::vector<Adapter> adapters;
    for (const auto& [digest, recorded] : found.adapters) {
      if (recorded.path.empty()) {
        return invalid("an adapter of the recording had no folder to be read from");
      }
      // The engine was allowed to read this folder. Links in the path are resolved, because they
      // may have changed since.
      TANDEM_ASSIGN(const std::filesystem::path folder, resolve_links(recorded.path));
      Result<Adapter> read = load_peft_adapter(folder, spec_, settings_.dtype, nullptr,
                                               unix_now_ns(), {.anywhere = true, .roots = {}});
      if (!read) return read.status().with_context(recorded.path);
      Adapter adapter = *std::move(read);
      if (adapter.digest != digest) {
        return invalid("adapter {} has changed since it was recorded", recorded.path);
      }
      if (adapter.max_rank > settings_.model.max_lora_rank) {
        return invalid("adapter {} has rank {}, the recording allows {}", recorded.path,
                       adapter.max_rank, settings_.model.max_lora_rank);
      }
      adapters.push_back(std::move(adapter));
    }
    return adapters;
  }

  // Takes the pages that plans use permanently, so that adapters get the others.
  Status make_pool(std::int64_t pages, const Device& device) {
    constexpr std::int64_t kIds = std::int64_t{1} << 30;
    const double bytes = static_cast<double>(pages) * static_cast<double>(layout_.page_bytes);
    if (pages * layout_.chunks_per_page > kIds || pages * settings_.page_tokens > kIds ||
        bytes > static_cast<double>(device.free_bytes())) {
      return error(StatusCode::resource_exhausted,
                   "the recording needs {} pages ({:.2f} GB), more than the device has", pages,
                   bytes / 1e9);
    }
    const auto count = static_cast<std::int32_t>(pages);
    pool_.emplace(layout_.pool(count, settings_.step.max_rows));
    std::vector<PageId> adapters;
    for (std::int32_t i = 0; i < count; ++i) {
      const PageId page = pool_->take_page();
      (page.value() < settings_.num_pages ? held_ : adapters).push_back(page);
    }
    for (const PageId page : adapters) pool_->drop_reference(page);
    return {};
  }

  Status place_adapters(std::vector<Adapter> adapters) {
    for (Adapter& adapter : adapters) {
      const std::string digest = adapter.digest;
      TANDEM_TRY(store_->add(digest, std::move(adapter), false, false));
      if (executor_->tier().start(store_->find(digest)) != DeviceTier::Start::on_its_way) {
        return error(StatusCode::resource_exhausted, "there is no room for the adapters");
      }
      TANDEM_TRY(executor_->tier().finish_loads());
    }
    return {};
  }

  const RecordedSettings settings_;
  const ModelSpec& spec_;
  const PoolLayout& layout_;
  std::optional<PagePool> pool_;
  std::vector<PageId> held_;  // the pages that plans use
  std::unique_ptr<AdapterStore> store_;
  std::unique_ptr<Executor> executor_;
  std::map<SlotId, std::string> slots_;  // digests by slot
};

void compare(const StepPlan& plan, const std::vector<TokenId>& tokens,
             const RecordedResult& recorded, ReplayedStep& step) {
  if (!recorded.ok) return;
  for (std::size_t e = 0; e < plan.entries.size(); ++e) {
    if (recorded.is_stale[e] != 0) continue;
    const StepPlan::Range samples = plan.entries[e].samples;
    for (std::int32_t i = samples.first; i < samples.first + samples.count; ++i) {
      const auto at = static_cast<std::size_t>(i);
      ++step.compared;
      step.different += tokens[at] == recorded.tokens[at] ? 0 : 1;
    }
  }
}

}  // namespace

Result<ReplayOutcome> replay_recording(const std::string& path, const ModelSpec& spec,
                                       const WeightSource& weights, Device& device,
                                       const Clock& clock, const LoadProgress& progress,
                                       const std::function<void(const ReplayedStep&)>& told) {
  TANDEM_ASSIGN(RecordingReader reader, RecordingReader::open(path));
  const PoolLayout layout =
      PoolLayout::of(spec, reader.settings().dtype, reader.settings().page_tokens);
  TANDEM_TRY(check_model(reader.settings(), spec));
  TANDEM_ASSIGN(RecordingReader first, RecordingReader::open(path));
  TANDEM_ASSIGN(const Survey found, survey(std::move(first), spec, layout.groups));
  Replay replay(reader.settings(), spec, layout);
  TANDEM_TRY(replay.set_up(found, weights, device, clock, progress));

  struct Ran {
    StepPlan plan;
    std::vector<TokenId> tokens;
    ReplayedStep step;
  };
  std::deque<Ran> waiting;  // steps that wait for their recorded results
  ReplayOutcome outcome;
  const auto tell = [&](const Ran& ran) {
    outcome.compared += ran.step.compared;
    outcome.different += ran.step.different;
    told(ran.step);
  };
  while (true) {
    TANDEM_ASSIGN(RecordingReader::Record record, reader.next());
    if (const auto* adapter = std::get_if<RecordedAdapter>(&record)) {
      replay.assign(*adapter);
    } else if (auto* plan = std::get_if<StepPlan>(&record)) {
      Ran& ran = waiting.emplace_back();
      ran.step.number = ++outcome.steps;
      if (plan->num_masks == 0) {
        TANDEM_ASSIGN(ran.tokens, replay.run(*plan, {}, ran.step));
      }
      ran.plan = std::move(*plan);
    } else if (const auto* masks = std::get_if<RecordedMasks>(&record)) {
      TANDEM_CHECK(!waiting.empty(), "surveyed");
      Ran& ran = waiting.back();
      TANDEM_ASSIGN(ran.tokens, replay.run(ran.plan, masks->words, ran.step));
    } else if (const auto* result = std::get_if<RecordedResult>(&record)) {
      TANDEM_CHECK(!waiting.empty(), "surveyed");
      compare(waiting.front().plan, waiting.front().tokens, *result, waiting.front().step);
      tell(waiting.front());
      waiting.pop_front();
    } else {
      break;
    }
  }
  for (const Ran& ran : waiting) tell(ran);  // steps that were running when the engine ended
  return outcome;
}

}  // namespace tandem
