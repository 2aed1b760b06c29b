// tandem profile: measures this machine and a model, writes the planner's profile, and answers
// questions from it.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "base/clock.h"
#include "base/log/log.h"
#include "base/threads/thread_cpus.h"
#include "cpu_lora/topology/plan/pin_plan.h"
#include "engine/loader/shard.h"
#include "engine/model/spec/spread.h"
#include "gpu/cuda/cuda_device.h"
#include "tools/cli/flags/flags.h"
#include "tools/cli/flags/output.h"
#include "tools/cli/machine.h"
#include "tools/cli/progress.h"
#include "tools/cli/version.h"
#include "tools/profile/measure/first_tokens_measure.h"
#include "tools/profile/measure/profile_measure.h"
#include "tools/profile/measure/profile_passes.h"
#include "tools/profile/measure/profile_workers.h"
#include "tools/profile/predict/first_tokens_view.h"
#include "tools/profile/predict/profile_map.h"
#include "tools/profile/profile.h"
#include "tools/profile/profile_diff.h"
#include "tools/profile/profile_report.h"
#include "tools/settings/engine_settings.h"
#include "tools/setup/core_setup.h"
#include "tools/setup/engine_setup.h"
#include "tools/setup/handoff_setup.h"
#include "tools/setup/profile_costs.h"

namespace tandem {
namespace {

const CommandInfo kInfo{
    "profile", "[--model DIR|SHAPE] [flags]",
    "Measures, in a minute or less, what the planner of cold starts needs to know of this machine\n"
    "and model: the link, the device's time per layer, the CPU workers, and the handoff between\n"
    "them. It measures each in turn until the figures are stable or the time is over. It fits\n"
    "linear models, prints them with a map of the fastest source, rates each figure, and writes\n"
    "a profile for `tandem serve --profile FILE`, and a page with plots beside it.\n"
    "\n"
    "With --explain, --what-if, --map or --diff it measures nothing and answers from a profile.\n"
    "Exit status: 0; 1 when something failed, or --diff found a figure changed by more than 10 %\n"
    "and by more than the spreads of both explain; 2 for a mistake in the flags.",
    "  tandem profile --model ./llama-2-7b --out profile.json\n"
    "  tandem profile --explain tokens=64 rank=64 cold=3 link=10\n"
    "  tandem profile --from profile.json --what-if cores=8 link=12\n"
    "  tandem profile --from profile.json --diff last-week.json"};

constexpr double kDiffLimit = 0.10;

struct ProfileSettings {
  std::string command;  // as typed
  std::string out;
  std::string html;
  std::string from;
  std::string explain;
  std::string what_if;
  std::string diff;
  bool map = false;
  bool quick = false;
  std::int64_t workers = -1;
};

bool asks(const ProfileSettings& settings) {
  return !settings.explain.empty() || !settings.what_if.empty() || !settings.diff.empty() ||
         settings.map;
}

// Joins "--explain tokens=64 rank=64" into one text, which the table of settings expects.
std::vector<std::string> join_words(const std::vector<std::string>& args) {
  std::vector<std::string> joined;
  bool asking = false;  // further words belong to the last one of `joined`
  bool first = false;
  for (const std::string& arg : args) {
    if (asking && !arg.starts_with('-')) {
      joined.back() += (first ? "=" : " ") + arg;
      first = false;
      continue;
    }
    asking = first = arg == "--explain" || arg == "--what-if";
    joined.push_back(arg);
  }
  return joined;
}

// Chooses the cores that `serve` would get beside the running engines.
Status choose_cpus(const EngineSettings& engine, bool on_host, ProfileTarget& target) {
  TANDEM_ASSIGN(const MachineMap machine, read_machine());
  TANDEM_ASSIGN(const PinPlan plan, plan_cores(engine, !on_host, machine, claims_of_others()));
  for (const std::string& fact : plan.facts) log::info("{}", fact);
  for (const std::string& note : plan.notes) log::warning("{}", note);
  target.usable_cpus = cpus_of_thread();
  target.engine_cpus = plan.engine_cpus;
  target.worker_cpus = plan.worker_cpus();
  // If the engine shares cores with workers or may run anywhere, it gets none of the measured
  // workers' cores here, as long as others are left. Otherwise the measurement would show the
  // scheduler alternating two threads that wait for each other on one core.
  const auto leave_workers = [&](std::vector<int> cpus) {
    std::erase_if(cpus, [&](int cpu) { return std::ranges::count(target.worker_cpus, cpu) > 0; });
    return cpus;
  };
  std::vector<int> apart = leave_workers(target.engine_cpus);
  if (apart.empty()) apart = leave_workers(target.usable_cpus);
  if (!apart.empty()) target.engine_cpus = std::move(apart);
  return {};
}

class Measurement {
 public:
  Measurement(const EngineSettings& engine, const ProfileSettings& settings)
      : engine_(engine), settings_(settings), start_(clock_.now()) {
    // The device's threads avoid the workers' cores, as in a server with the same number of
    // workers.
    if (settings.workers >= 0) engine_.cpu_workers = settings.workers;
  }

  Result<Profile> run() {
    TANDEM_ASSIGN(target_.stored, find_model_spec(engine_.model));
    if (!target_.stored.has_equal_layers()) {
      return invalid(
          "model: its layers have several sizes, and a profile describes layers of one size; "
          "`tandem serve` works without a profile");
    }
    const auto num_devices = static_cast<std::int32_t>(engine_.tensor_parallel);
    target_.spec = spread_over(target_.stored, num_devices);
    TANDEM_TRY(check_shards(target_.spec, num_devices));
    target_.shape = shape_of_shard(target_.spec, num_devices);
    TANDEM_ASSIGN(devices_, make_devices(engine_));
    for (const auto& device : devices_) target_.devices.push_back(device.get());
    const DeviceInfo& device = devices_.front()->info();
    const bool on_host = !device.is_cuda;
    TANDEM_ASSIGN(target_.dtype, choose_dtype(engine_, target_.spec, !on_host));
    TANDEM_TRY(choose_cpus(engine_, on_host, target_));
    target_.quick = settings_.quick || on_host;
    profile_.date = utc_now();
    profile_.commit = build_commit();
    profile_.machine = this_machine(device);
    profile_.workers = static_cast<std::int32_t>(target_.worker_cpus.size());
    profile_.model = this_model(target_.spec, target_.dtype, engine_.model, num_devices);
    TANDEM_ASSIGN(const std::vector<std::string> notes, measure_where_the_engine_runs());
    for (const std::string& note : notes) log::warning("{}", note);
    log::info("measuring first tokens of cold adapters, to hold against the costs");
    const Status first_tokens = measure_first_tokens(engine_, target_, profile_);
    if (!first_tokens) log::info("no first tokens were measured: {}", first_tokens.message());
    profile_.seconds = std::round(seconds_between(start_, clock_.now()) * 10) / 10;
    return std::move(profile_);
  }

 private:
  // The streams' threads start on the cpus of the thread that creates them.
  Result<std::vector<std::string>> measure_where_the_engine_runs() {
    if (!engine_.pin || target_.usable_cpus.empty() || target_.engine_cpus.empty()) {
      return measure();
    }
    pin_this_thread(target_.engine_cpus, "the measuring thread");
    Result<std::vector<std::string>> notes = measure();
    pin_this_thread(target_.usable_cpus, "the measuring thread");
    return notes;
  }

  Result<std::vector<std::string>> measure() {
    std::vector<int> cpus = target_.engine_cpus;
    cpus.insert(cpus.end(), target_.worker_cpus.begin(), target_.worker_cpus.end());
    BusyOthers others(clock_, std::move(cpus), {});
    std::vector<NamedStage> stages;
    const auto add = [&](std::string what, MadeStage made) -> Status {
      if (!made) return made.status().with_context("measuring " + what);
      stages.push_back({std::move(what), *std::move(made)});
      return {};
    };
    TANDEM_TRY(add("the link", make_link_stage(target_)));
    TANDEM_TRY(add("the layer's products", make_gemm_stage(target_)));
    TANDEM_TRY(add("the LoRA operation", make_lora_stage(target_)));
    TANDEM_TRY(add("steps of the model", make_steps()));
    TANDEM_TRY(add("the way to a worker and back", make_trip_stage(target_)));
    if (!target_.worker_cpus.empty()) {
      TANDEM_TRY(add("host memory", make_memory_stage(target_)));
      TANDEM_TRY(add("CPU workers", make_worker_stage(target_)));
    }
    PassLimits limits;
    if (!target_.quick) limits.seconds = 40;
    if (settings_.quick) limits.seconds = 3;
    return measure_in_passes(stages, limits, clock_, Progress::is_terminal(STDERR_FILENO), others,
                             profile_);
  }

  MadeStage make_steps() {
    Progress progress("making dummy weights", STDERR_FILENO, Progress::is_terminal(STDERR_FILENO),
                      clock_);
    return make_steps_stage(target_, [&](std::size_t done, std::size_t total) {
      progress.update(done, total);
      if (done == total) progress.finish();
    });
  }

  EngineSettings engine_;
  const ProfileSettings& settings_;
  const SteadyClock clock_{};
  const TimePoint start_;
  std::vector<std::unique_ptr<Device>> devices_;
  ProfileTarget target_;
  Profile profile_;
};

// The profile at --from, or else at the default path, or else the built-in one.
Result<Profile> find_profile(const EngineSettings& engine, const ProfileSettings& settings) {
  const std::string path = settings.from.empty() ? default_profile_path() : settings.from;
  std::error_code ignored;
  if (!settings.from.empty() || (!path.empty() && std::filesystem::exists(path, ignored))) {
    TANDEM_ASSIGN(Profile profile, read_profile(path));
    fmt::print("from {}\n", path);
    return profile;
  }
  const std::string model = engine.model == "auto" ? "llama-2-7b" : engine.model;
  TANDEM_ASSIGN(const ModelSpec spec, find_model_spec(model));
  Profile built_in;
  built_in.workers = 12;
  built_in.model = ProfileModel::of(spec, DType::bf16, model, 1);
  built_in.machine = {"built-in figures", 16, "an H200"};
  built_in.date = "built-in";
  built_in.commit = build_commit();
  fmt::print("no profile yet: from built-in figures, of an H200 with 12 CPU workers\n");
  return built_in;
}

Status answer_what_if(const Profile& profile, const std::string& text) {
  TANDEM_ASSIGN(const PlanQuestion question, parse_question(text));
  Profile imagined = profile;
  if (question.cores >= 0) imagined.workers = question.cores;
  if (question.link > 0) imagined.costs.link_bytes_per_s = question.link * 1e9;
  fmt::print("\nif: {} CPU workers (measured with {}), link {:.1f} GB/s (measured {:.1f})\n\n",
             imagined.workers, profile.workers, imagined.costs.link_bytes_per_s / 1e9,
             profile.costs.link_bytes_per_s / 1e9);
  fmt::print("{}\n", first_tokens_text(imagined));
  std::vector<double> links = map_links(imagined);
  if (question.link > 0) links.resize(1);
  fmt::print(
      "rows of a cold adapter (rank 64 on q, k, v) whose layer the workers answer before the "
      "link brings it\n{}\n{}",
      budget_text(imagined, links), map_text(plan_map(imagined, imagined.workers, links)));
  return {};
}

Result<int> answer_questions(const EngineSettings& engine, const ProfileSettings& settings) {
  if (!settings.out.empty()) {
    return invalid(
        "out: --explain, --what-if, --map and --diff measure nothing, so there is no profile to "
        "write; name the one to answer from with --from FILE, a page to write with --html FILE");
  }
  // Questions are checked first.
  const Result<PlanQuestion> question = parse_question(settings.explain);
  if (!question) return question.status().with_context("explain");
  if (const auto asked = parse_question(settings.what_if); !asked) {
    return asked.status().with_context("what-if");
  }
  TANDEM_ASSIGN(const Profile profile, find_profile(engine, settings));
  if (!settings.explain.empty()) fmt::print("\n{}", explain_answer(profile, *question));
  if (!settings.what_if.empty()) TANDEM_TRY(answer_what_if(profile, settings.what_if));
  if (settings.map) fmt::print("\n{}", profile_text(profile));
  if (!settings.html.empty()) {
    TANDEM_TRY(write_output("html", settings.html, profile_page(profile, settings.command).text()));
  }
  if (settings.diff.empty()) return kExitOk;
  TANDEM_ASSIGN(const Profile before, read_profile(settings.diff));
  const ProfileDiff diff = diff_profiles(before, profile);
  fmt::print("\n{}", diff.text);
  return diff.largest_change > kDiffLimit ? kExitFailure : kExitOk;
}

// Reports an unwritable path before minutes of measuring, and creates the profile's folder.
Status check_outputs(const std::string& out, const std::string& html) {
  std::error_code failure;
  std::filesystem::create_directories(std::filesystem::path(out).parent_path(), failure);
  TANDEM_TRY(check_output("out", out, true));
  return check_output("html", html);
}

Result<int> measure_and_write(const EngineSettings& engine, const ProfileSettings& settings) {
  const std::string out = settings.out.empty() ? default_profile_path() : settings.out;
  if (out.empty()) return invalid("out: there is no home folder; name a file with --out FILE");
  const std::string html = settings.html.empty()
                               ? std::filesystem::path(out).replace_extension(".html").string()
                               : settings.html;
  TANDEM_TRY(check_outputs(out, html));
  if (engine.weights != "bf16") {
    return invalid("weights: a profile is of weights that are not quantised; leave it out");
  }
  TANDEM_ASSIGN(const Profile profile, Measurement(engine, settings).run());
  TANDEM_TRY(write_profile(profile, out));
  TANDEM_TRY(write_output("html", html, profile_page(profile, settings.command).text()));
  fmt::print("{}\nwritten: {}, {}\nuse it:  tandem serve --profile {} ...\n", profile_text(profile),
             out, html, out);
  return kExitOk;
}

}  // namespace

int run_profile(const std::vector<std::string>& args) {
  EngineSettings engine;
  engine.model = "auto";
  engine.load_format = "dummy";
  ServerSettings server;
  ProfileSettings settings;
  settings.command = fmt::format("tandem profile {}", fmt::join(args, " "));
  SettingsTable table;
  table.group("Profile");
  table
      .add(settings.out, "out",
           "file for the measured profile; default: ~/.config/tandem/profile.json, with the page "
           "beside it")
      .meta("FILE")
      .flag_only();
  table.add(settings.html, "html", "file for the page").meta("FILE").flag_only();
  table
      .add(settings.workers, "workers",
           "CPU workers to measure, one core each; -1: as many as serve starts")
      .range(-1, 64)
      .flag_only();
  table.add(settings.quick, "quick", "measure fewer cases and rounds; always so on the host device")
      .flag_only();
  table.group("Questions");
  table
      .add(settings.from, "from",
           "profile that answers; default: ~/.config/tandem/profile.json, otherwise built-in "
           "figures")
      .meta("FILE")
      .flag_only();
  table
      .add(settings.explain, "explain",
           "print the plan of a cold start layer by layer: tokens=64 rank=64 cold=3 link=10 "
           "cores=8 lead=1 disk=3 modules=qkv|all7|q,o; each word is optional")
      .meta("WORDS")
      .flag_only();
  table
      .add(settings.what_if, "what_if",
           "print the budget and the map for other hardware, as in cores=8 link=12")
      .meta("WORDS")
      .flag_only();
  table.add(settings.map, "map", "print the whole profile").flag_only();
  table.add(settings.diff, "diff", "compare with an older profile and print the differences")
      .meta("OLD")
      .flag_only();
  add_engine_settings(table, engine, server, {});
  if (const auto status = read_settings(kInfo, table, join_words(args))) return *status;
  set_up_log(engine.log);
  if (asks(settings)) {
    const Result<int> status = answer_questions(engine, settings);
    return status ? *status : report_failure(kInfo, status.status());
  }
  const bool gpu =
      engine.device == "cuda" || (engine.device == "auto" && !list_cuda_gpus().empty());
  if (engine.model == "auto") engine.model = gpu ? "llama-2-7b" : "llama-3.2-1b";
  const Result<int> status = measure_and_write(engine, settings);
  return status ? *status : report_failure(kInfo, status.status());
}

}  // namespace tandem
