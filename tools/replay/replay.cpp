// tandem replay: runs the steps that an engine recorded (--record-steps) again, without the engine.
#include <fmt/format.h>

#include <cstdio>
#include <string_view>

#include "base/clock.h"
#include "base/log/log.h"
#include "engine/recording/recording_reader.h"
#include "engine/recording/replay.h"
#include "tools/cli/flags/flags.h"
#include "tools/replay/replay.h"
#include "tools/settings/engine_settings.h"
#include "tools/setup/engine_setup.h"

namespace tandem {
namespace {

const CommandInfo kInfo{
    "replay", "FILE [--model DIR] [flags]",
    "Runs the steps in FILE, which `tandem serve --record-steps FILE` or `tandem generate` wrote,\n"
    "and compares the tokens that they sample with the recorded ones. Prints a line for each "
    "step;\n"
    "the exit status is 1 if tokens differ. Model and adapters are read from their old places.",
    "  tandem generate --model tests/data/demo-llama -p 'def f(' --record-steps /tmp/steps\n"
    "  tandem replay /tmp/steps"};

void print_step(const ReplayedStep& step) {
  std::string verdict = "nothing to compare";
  if (step.different > 0) {
    verdict = fmt::format("{} of {} tokens differ", step.different, step.compared);
  } else if (step.compared > 0) {
    verdict = fmt::format("{} token{} equal", step.compared, step.compared == 1 ? "" : "s");
  }
  fmt::print("step {:5}  {:5} rows  {:9.3f} ms  {}\n", step.number, step.rows, step.seconds * 1e3,
             verdict);
}

Result<int> replay(const std::string& file, EngineSettings settings) {
  TANDEM_ASSIGN(const RecordingReader recording, RecordingReader::open(file));
  const ModelSource& source = recording.settings().source;
  if (settings.model.empty()) settings.model = source.path;
  settings.load_format = source.load_format;
  settings.seed = source.seed;
  settings.weights = source.weights;
  TANDEM_ASSIGN(const ModelSpec spec, find_model_spec(settings.model));
  TANDEM_ASSIGN(const std::unique_ptr<WeightSource> weights, open_weights(settings, spec));
  TANDEM_ASSIGN(const std::unique_ptr<Device> device, make_device(settings));
  const SteadyClock clock;
  TANDEM_ASSIGN(const ReplayOutcome outcome, replay_recording(
                                                 file, spec, *weights, *device, clock,
                                                 [](std::size_t, std::size_t) {}, print_step));
  fmt::print("{} steps, {} of {} tokens differ\n", outcome.steps, outcome.different,
             outcome.compared);
  return outcome.different == 0 ? kExitOk : kExitFailure;
}

}  // namespace

int run_replay(const std::vector<std::string>& args) {
  std::vector<std::string> files;
  EngineSettings settings;
  settings.log.log_level = "warning";  // only the steps' output matters here
  SettingsTable table;
  table.group("Model");
  table.add(settings.model, "model", "checkpoint folder; default: that of the recording")
      .meta("DIR")
      .flag_only();
  add_device_settings(table, settings);
  add_log_settings(table, settings.log);
  const GivenBeside beside{.words = &files, .least_words = 1, .word = "file"};
  if (const auto status = read_settings(kInfo, table, args, beside)) return *status;
  set_up_log(settings.log);
  const Result<int> status = replay(files.front(), settings);
  return status ? *status : report_failure(kInfo, status.status());
}

}  // namespace tandem
