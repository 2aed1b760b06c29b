#include "tools/bench/serve/serve_session.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "tools/bench/common/command_line.h"
#include "tools/bench/serve/serve_progress.h"
#include "tools/cli/machine.h"
#include "tools/cli/progress.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

// Files beside the connections'.
constexpr std::size_t kOtherFiles = 64;
constexpr std::uint64_t kOtherPrompt = 0x9e3779b97f4a7c15;
constexpr double kPlainRate = 256;  // connections that a rate without a limit may need at once

std::vector<std::string> split_list(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    if (end > begin) parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

Result<std::pair<std::string, std::string>> split_pair(const char* setting,
                                                       const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == 0 || equals == std::string::npos) {
    return invalid("{}: '{}' is not NAME=VALUE", setting, text.substr(0, equals));
  }
  return std::pair(text.substr(0, equals), text.substr(equals + 1));
}

bool is_plain(const std::string& text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) >= ' '; });
}

Result<LoadTarget> target_of(const ServeBenchSettings& s) {
  TANDEM_ASSIGN(
      LoadTarget target,
      parse_base_url(s.base_url.empty() ? fmt::format("{}:{}", s.host, s.port) : s.base_url));
  if (const char* key = std::getenv("OPENAI_API_KEY"); key != nullptr && *key != '\0') {
    if (!is_plain(key)) return invalid("OPENAI_API_KEY: there is a control character in it");
    target.headers.emplace_back("Authorization", fmt::format("Bearer {}", key));
  }
  for (const std::string& text : s.headers) {
    TANDEM_ASSIGN(auto header, split_pair("header", text));
    if (!is_plain(text))
      return invalid("header: there is a control character in '{}'", header.first);
    target.headers.push_back(std::move(header));
  }
  return target;
}

// A folder of a model has its tokenizer; a name has none.
std::string tokenizer_dir_of(const ServeBenchSettings& s) {
  if (!s.tokenizer.empty()) return s.tokenizer;
  std::error_code ignored;
  return fs::exists(fs::path(s.model) / "tokenizer.json", ignored) ? s.model : std::string();
}

Result<PromptMaker> maker_of(const ServeBenchSettings& s, const std::string& dir) {
  if (!dir.empty()) {
    auto tokenizer = Tokenizer::load(dir);
    if (!tokenizer) return tokenizer.status().with_context("tokenizer");
    return PromptMaker(std::move(*tokenizer));
  }
  if (s.vocab_size != 0 && s.vocab_size <= PromptMaker::kFirstPlainId) {
    return invalid("vocab_size: ids below {} are left to special tokens; give more",
                   PromptMaker::kFirstPlainId);
  }
  return PromptMaker(s.vocab_size == 0 ? PromptMaker::kDefaultVocabulary
                                       : static_cast<std::int32_t>(s.vocab_size));
}

Result<BodyOptions> body_of(const ServeBenchSettings& s) {
  BodyOptions body;
  body.dialect = s.backend == "openai-chat" ? Dialect::chat : Dialect::completions;
  if (body.dialect == Dialect::chat && s.prompts_as == "ids") {
    return invalid("prompts_as: a chat has texts; leave ids to --backend openai");
  }
  body.as_text = s.prompts_as == "text";
  body.ignore_eos = s.ignore_eos;
  body.sampling["temperature"] = s.temperature;
  if (s.top_p > 0) body.sampling["top_p"] = s.top_p;
  TANDEM_ASSIGN(body.extra, parse_extra_body(s.extra_body));
  return body;
}

DatasetOptions dataset_of(const ServeBenchSettings& s, std::int64_t number) {
  DatasetOptions options;
  options.name = s.dataset_name;
  options.path = s.dataset_path;
  options.input_len = s.input_len;
  options.output_len = s.output_len;
  options.range_ratio = s.random_range_ratio;
  options.prefix_len =
      s.dataset_name == "prefix_repetition" ? s.prefix_repetition_prefix_len : s.random_prefix_len;
  options.num_prefixes = s.prefix_repetition_num_prefixes;
  options.block_tokens = s.trace_block_tokens;
  options.trace_speed = s.trace_speed;
  options.seed = static_cast<std::uint64_t>(s.seed + number);
  return options;
}

LoadPlanOptions plan_options_of(const ServeBenchSettings& s, double request_rate) {
  LoadPlanOptions options;
  options.num_prompts = s.num_prompts;
  options.arrivals.requests_per_s = request_rate;
  options.arrivals.burstiness = s.burstiness;
  options.arrivals.burst_size = s.burst_size;
  options.arrivals.ramp_up = s.ramp_up_strategy;
  options.arrivals.start_rps = s.ramp_up_start_rps;
  options.arrivals.end_rps = s.ramp_up_end_rps;
  options.choice.assignment = s.lora_assignment;
  options.choice.distribution = s.lora_request_distribution;
  options.choice.zipf_alpha = s.lora_zipf_alpha;
  options.adapters = s.lora_modules;
  options.seed = static_cast<std::uint64_t>(s.seed);
  return options;
}

// A process may open some thousand files unless it asks for more; then connections fail by the
// hundred, and the reason is hard to see.
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

std::string command_without_secrets(const std::vector<std::string>& args) {
  std::vector<std::string> shown;
  bool in_headers = false;
  for (const std::string& arg : args) {
    if (arg.starts_with("--")) in_headers = arg.starts_with("--header");
    const std::size_t name_at = arg.starts_with("--header=") ? arg.find('=') + 1 : 0;
    const std::size_t equals = arg.find('=', name_at);
    const bool hides = in_headers && (name_at > 0 || !arg.starts_with("--"));
    shown.push_back(hides ? arg.substr(0, equals) + "=..." : arg);
  }
  return bench_command_line("serve", shown);
}

ServeSession::ServeSession(const ServeBenchSettings& settings, std::string command,
                           std::function<bool()> stopped, PromptMaker maker)
    : settings_(settings),
      command_(std::move(command)),
      stopped_(std::move(stopped)),
      maker_(std::move(maker)) {}

Result<ServeSession> ServeSession::create(const ServeBenchSettings& settings, std::string command,
                                          std::function<bool()> stopped) {
  const std::string tokenizer_dir = tokenizer_dir_of(settings);
  TANDEM_ASSIGN(PromptMaker maker, maker_of(settings, tokenizer_dir));
  ServeSession session(settings, std::move(command), std::move(stopped), std::move(maker));
  session.tokenizer_dir_ = tokenizer_dir;
  TANDEM_ASSIGN(session.target_, target_of(settings));
  TANDEM_ASSIGN(session.body_, body_of(settings));
  TANDEM_ASSIGN(session.goodput_, parse_goodput(settings.goodput));
  TANDEM_ASSIGN(session.percentiles_, parse_percentiles(settings.metric_percentiles));
  session.metrics_ = split_list(settings.percentile_metrics);
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
                ask_models(target_, duration_of(settings_.ready_check_timeout_sec)));
  // A folder's name is the tokenizer's, hardly the server's.
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
  std::vector<std::string>& names = settings_.lora_modules;
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
  LoadRunOptions options;
  options.path = !settings_.endpoint.empty()      ? settings_.endpoint
                 : body_.dialect == Dialect::chat ? "/v1/chat/completions"
                                                  : "/v1/completions";
  if (!options.path.starts_with('/')) options.path = "/" + options.path;
  options.model = model_;
  options.body = body_;
  options.max_concurrency = max_concurrency;
  options.request_timeout_s = settings_.request_timeout;
  options.burst_pause_s = settings_.burst_pause_s;
  options.keep_text = settings_.save_detailed;
  return options;
}

// Requests like the run's, for the base and, if asked, for each adapter: one after another.
Status ServeSession::warm_up(const LoadPlan& plan) {
  LoadPlan warm;
  warm.adapters = plan.adapters;
  // Not one of the run's prompts, which servers would then have in their prefix caches.
  warm.prompts = {plan.prompts.back()};
  if (!warm.prompts[0].pieces.empty()) warm.prompts[0].pieces.back().seed ^= kOtherPrompt;
  warm.all_at_once = true;
  warm.requests.resize(static_cast<std::size_t>(settings_.num_warmups));
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
  asked.dataset = settings_.dataset_name;
  asked.request_rate = request_rate;
  asked.burstiness = settings_.burstiness;
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
  TANDEM_ASSIGN(Dataset dataset, make_dataset(dataset_of(settings_, number), settings_.num_prompts,
                                              maker_.tokenizer()));
  std::string note = dataset.note;
  const bool has_random_ids = !dataset.prompts.front().pieces.empty() && !body_.as_text &&
                              body_.dialect == Dialect::completions;
  if (has_random_ids && maker_.tokenizer() == nullptr && settings_.vocab_size == 0) {
    note = fmt::format(
        "prompts are ids below {}, which every vocabulary has; --vocab-size N or "
        "--tokenizer DIR takes more of the model's",
        PromptMaker::kDefaultVocabulary);
  }
  LoadPlanOptions options = plan_options_of(settings_, request_rate);
  options.seed += static_cast<std::uint64_t>(number);
  options.choice.mix = mix_;
  options.rates = rates_;
  TANDEM_ASSIGN(const LoadPlan plan, make_load_plan(options, std::move(dataset)));
  TANDEM_TRY(allow_connections(max_concurrency, std::ssize(plan.requests), request_rate));
  if (settings_.num_warmups > 0 || settings_.warm_adapters) TANDEM_TRY(warm_up(plan));
  LoadOutcome outcome;
  {
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
