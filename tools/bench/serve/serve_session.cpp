#include "tools/bench/serve/serve_session.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "tools/bench/serve/serve_options.h"
#include "tools/bench/serve/serve_progress.h"
#include "tools/cli/machine.h"
#include "tools/cli/progress.h"

namespace tandem {
namespace {

// Number of open files besides connections.
constexpr std::size_t kOtherFiles = 64;
constexpr std::uint64_t kOtherPrompt = 0x9e3779b97f4a7c15;
constexpr double kPlainRate = 256;  // connections that a rate without a limit may need at once

// Raises the limit of open files, usually some thousand. Fails if it is too low, because otherwise
// connections would fail by the hundred for a reason that is hard to see.
Status allow_connections(std::int64_t max_concurrency, std::int64_t num_prompts, double rate) {
  const std::int64_t limit = max_concurrency > 0 ? max_concurrency : num_prompts;
  const auto wanted = static_cast<std::size_t>(std::min(limit, num_prompts)) + kOtherFiles;
  const std::size_t allowed = allow_open_files(wanted);
  const bool needs_all = max_concurrency > 0 || !std::isfinite(rate);
  if (allowed >= wanted || (!needs_all && static_cast<double>(allowed) > kPlainRate)) return {};
  return error(StatusCode::resource_exhausted,
               "{} requests may run at once, and this process may open {} files; give a "
               "--max-concurrency below that, or raise `ulimit -n`",
               wanted - kOtherFiles, allowed);
}

}  // namespace

ServeSession::ServeSession(const ServeBenchSettings& settings, std::string command,
                           std::function<bool()> stopped, PromptMaker maker)
    : settings_(settings),
      command_(std::move(command)),
      stopped_(std::move(stopped)),
      maker_(std::move(maker)) {}

Result<ServeSession> ServeSession::create(const ServeBenchSettings& settings, std::string command,
                                          std::function<bool()> stopped) {
  const std::string tokenizer_dir = tokenizer_folder(settings);
  TANDEM_ASSIGN(PromptMaker maker, prompt_maker_from(settings, tokenizer_dir));
  ServeSession session(settings, std::move(command), std::move(stopped), std::move(maker));
  session.tokenizer_dir_ = tokenizer_dir;
  TANDEM_ASSIGN(session.target_, target_from(settings));
  TANDEM_ASSIGN(session.body_, body_options_from(settings));
  TANDEM_ASSIGN(session.goodput_, parse_goodput(settings.goodput));
  TANDEM_ASSIGN(session.percentiles_, parse_percentiles(settings.metric_percentiles));
  session.metrics_ = split_commas(settings.percentile_metrics);
  for (const std::string& metric : session.metrics_) {
    if (metric != "ttft" && metric != "tpot" && metric != "itl" && metric != "e2el") {
      return invalid("percentile_metrics: '{}' is none of ttft, tpot, itl, e2el", metric);
    }
  }
  TANDEM_ASSIGN(session.mix_, parse_named_numbers("lora_mix", settings.lora_mix));
  TANDEM_ASSIGN(session.rates_, parse_named_numbers("lora_rates", settings.lora_rates));
  if (!session.mix_.empty() && !session.rates_.empty()) {
    return invalid("lora_mix and lora_rates both say who is asked for: give one of them");
  }
  for (const std::string& text : settings.metadata) {
    TANDEM_ASSIGN(auto pair, split_pair("metadata", text));
    session.metadata_.push_back(std::move(pair));
  }
  TANDEM_TRY(session.find_models());
  return session;
}

Status ServeSession::find_models() {
  TANDEM_ASSIGN(const std::vector<ListedModel> models,
                ask_models(target_, settings_.ready_check_timeout));
  // A folder is the tokenizer's; the server probably has another name for the model.
  const bool is_folder = tokenizer_dir_ == settings_.model;
  model_ = !settings_.served_model_name.empty() ? settings_.served_model_name
           : is_folder                          ? std::string()
                                                : settings_.model;
  for (const ListedModel& one : models) {
    if (model_.empty() && !one.is_adapter) model_ = one.name;
  }
  if (model_.empty()) {
    return invalid("{} lists no model: give --model NAME", target_.address.text());
  }
  std::vector<std::string>& names = settings_.plan.adapters;
  if (names == std::vector<std::string>{"all"}) {
    names.clear();
    for (const ListedModel& one : models) {
      if (one.is_adapter) names.push_back(one.name);
    }
    if (names.empty()) {
      return invalid("lora_modules: {} lists no adapter; name those it serves",
                     target_.address.text());
    }
  }
  for (const NamedNumbers& named : {mix_, rates_}) {
    for (const auto& [name, number] : named) {
      if (name != "base" && std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
  }
  return {};
}

LoadRunOptions ServeSession::run_options(std::int64_t max_concurrency) const {
  LoadRunOptions options = settings_.run;
  options.path = !settings_.endpoint.empty()      ? settings_.endpoint
                 : body_.dialect == Dialect::chat ? "/v1/chat/completions"
                                                  : "/v1/completions";
  if (!options.path.starts_with('/')) options.path = "/" + options.path;
  options.model = model_;
  options.body = body_;
  options.max_concurrency = max_concurrency;
  return options;
}

// Sends requests like the run's, one after another: for the base and, if asked, for each adapter.
Status ServeSession::warm_up(const LoadPlan& plan) {
  LoadPlan warm;
  warm.adapters = plan.adapters;
  // Random prompts differ from the run's, because servers would keep those in their prefix caches.
  // With a data set from a file it is the last prompt.
  warm.prompts = {plan.prompts.back()};
  if (!warm.prompts[0].pieces.empty()) warm.prompts[0].pieces.back().seed ^= kOtherPrompt;
  warm.all_at_once = true;
  warm.requests.resize(settings_.num_warmups);
  for (std::size_t i = 0; settings_.warm_adapters && i < plan.adapters.size(); ++i) {
    warm.requests.push_back({0, static_cast<std::int32_t>(i), 0, 0});
  }
  LoadRunOptions options = run_options(1);
  options.burst_pause_s = -1;
  ServeProgress progress("warm-up: ", std::ssize(warm.requests),
                         Progress::is_terminal(STDERR_FILENO));
  const LoadOutcome outcome = run_load(warm, maker_, target_, options, [&](const LoadState& state) {
    progress.update(state);
    return !stopped_();
  });
  for (const RequestRecord& record : outcome.records) {
    if (record.outcome == RequestOutcome::failed) {
      return error(StatusCode::unavailable, "a warm-up failed: {}", record.error);
    }
  }
  return {};
}

LoadConditions ServeSession::conditions(double request_rate, std::int64_t max_concurrency,
                                        const LoadPlan& plan) const {
  LoadConditions asked;
  asked.command = command_;
  asked.url = target_.address.text() + target_.prefix;
  asked.backend = settings_.backend;
  asked.model = model_;
  asked.tokenizer = tokenizer_dir_;
  asked.label = settings_.label;
  asked.dataset = settings_.dataset.name;
  asked.request_rate = request_rate;
  asked.burstiness = settings_.plan.arrivals.burstiness;
  asked.max_concurrency = max_concurrency;
  asked.num_prompts = std::ssize(plan.requests);
  asked.goodput = goodput_;
  asked.count_from = settings_.count_from == "due" ? CountFrom::due : CountFrom::sent;
  asked.metrics = metrics_;
  asked.percentiles = percentiles_;
  asked.metadata = metadata_;
  asked.adapters = plan.adapters;
  return asked;
}

Result<ServeReport> ServeSession::measure(double request_rate, std::int64_t max_concurrency,
                                          const std::string& what, std::int64_t number) {
  TANDEM_ASSIGN(Dataset dataset, make_dataset(dataset_options_from(settings_, number),
                                              settings_.plan.num_prompts, maker_.tokenizer()));
  std::string note = dataset.note;
  const bool has_random_ids = !dataset.prompts.front().pieces.empty() && !body_.as_text &&
                              body_.dialect == Dialect::completions;
  if (has_random_ids && maker_.tokenizer() == nullptr && settings_.vocab_size == 0) {
    note = fmt::format(
        "prompts are ids below {}, which every vocabulary has; --vocab-size N or "
        "--tokenizer DIR takes more of the model's",
        PromptMaker::kDefaultVocabulary);
  }
  LoadPlanOptions options = settings_.plan;
  options.arrivals.requests_per_s = request_rate;
  options.seed += static_cast<std::uint64_t>(number);
  options.choice.mix = mix_;
  options.rates = rates_;
  TANDEM_ASSIGN(const LoadPlan plan, make_load_plan(options, std::move(dataset)));
  TANDEM_TRY(allow_connections(max_concurrency, std::ssize(plan.requests), request_rate));
  if (settings_.num_warmups > 0 || settings_.warm_adapters) TANDEM_TRY(warm_up(plan));
  LoadOutcome outcome;
  outcome.stopped = stopped_();  // stopped in the warm-up: nothing is sent
  if (!outcome.stopped) {
    ServeProgress progress(what, std::ssize(plan.requests), Progress::is_terminal(STDERR_FILENO));
    outcome =
        run_load(plan, maker_, target_, run_options(max_concurrency), [&](const LoadState& state) {
          progress.update(state);
          return !stopped_();
        });
  }
  if (settings_.warm_adapters) {
    for (RequestRecord& record : outcome.records) record.first_touch = false;
  }
  ServeReport report;
  report.conditions = conditions(request_rate, max_concurrency, plan);
  if (!note.empty()) report.conditions.notes.push_back(note);
  if (outcome.stopped) {
    report.conditions.notes.emplace_back("stopped before its end: figures of what was answered");
  }
  report.figures =
      figures_of(outcome.records, outcome.duration_s, goodput_, report.conditions.count_from);
  report.records = std::move(outcome.records);
  return report;
}

}  // namespace tandem
