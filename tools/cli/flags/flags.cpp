#include "tools/cli/flags/flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <utility>

#include "base/check.h"
#include "base/log/log.h"
#include "base/stderr_text.h"
#include "tools/cli/flags/file_keys.h"
#include "tools/cli/flags/foreign_flags.h"
#include "tools/cli/flags/help_text.h"
#include "tools/cli/flags/variables.h"

namespace tandem {
namespace {

HelpReader* help_reader = nullptr;
const Subcommands* all_commands = nullptr;  // of the outermost running run_subcommand()

// While it lives, `commands` count as the whole program's, unless they are subcommands of others.
class Outermost {
 public:
  explicit Outermost(const Subcommands& commands)
      : before_(std::exchange(all_commands, all_commands ? all_commands : &commands)) {}
  ~Outermost() { all_commands = before_; }
  Outermost(const Outermost&) = delete;
  Outermost& operator=(const Outermost&) = delete;

 private:
  const Subcommands* before_;
};

struct CommonSettings {
  std::string config;
  bool print_config = false;
  bool help = false;
  bool help_all = false;
};

void add_common_settings(SettingsTable& table, CommonSettings& common) {
  table.group("Common");
  table
      .add(common.config, "config", "TOML file with any of the keys above; flags and variables win")
      .meta("FILE")
      .flag_only();
  table.add(common.print_config, "print_config", "print every setting with its source and exit")
      .flag_only();
  const bool has_experts = std::ranges::any_of(table.fields(), [](const SettingsField& field) {
    return field.facts().expert && field.facts().has_flag;
  });
  table.add(common.help, "help", "print this and exit").flag_only().short_flag('h');
  if (!has_experts) return;
  table.add(common.help_all, "help_all", "print this with the settings for tests and measurements")
      .flag_only();
}

int report_usage(const CommandInfo& command, std::string_view message) {
  fmt::print(stderr, "tandem {}: {}\n", command.name, message);
  return kExitUsage;
}

std::string flag_names(const SettingsField& field) {
  std::string names = flag_of(field.facts());
  if (!field.facts().old_flag.empty()) names += ",--" + field.facts().old_flag;
  if (field.facts().letter != 0) names += fmt::format(",-{}", field.facts().letter);
  if (is_bool(field.facts()) && !field.facts().key.starts_with("help"))
    names += ",!--no-" + flag_of(field.facts()).substr(2);
  return names;
}

std::string did_you_mean(const std::string& given, const std::vector<std::string>& known) {
  const std::string close = nearest(given, known);
  return close.empty() ? "" : fmt::format("did you mean '{}'? ", close);
}

// The message for an argument that CLI11 did not recognise: a mistyped flag, or a stray word.
std::string unexpected(const std::string& argument, const SettingsTable& table,
                       const CommandInfo& command) {
  if (argument.size() < 2 || argument[0] != '-') {
    const bool has_model = std::ranges::any_of(table.fields(), [](const SettingsField& field) {
      return field.facts().key == "model" && field.facts().has_flag;
    });
    return fmt::format("unexpected argument '{}'; {}`tandem {} --help` lists the flags", argument,
                       has_model ? "a model is named by --model; " : "", command.name);
  }
  const std::string flag = argument.substr(0, argument.find('='));
  std::string key = flag.substr(std::min(flag.find_first_not_of('-'), flag.size()));
  std::ranges::replace(key, '-', '_');
  if (const Status gone = table.check_retired(key, flag); !gone) return gone.message();
  if (const std::string_view hint = foreign_flag_hint(flag); !hint.empty()) {
    return fmt::format("there is no {}; {}", flag, hint);
  }
  std::vector<std::string> flags;
  for (const SettingsField& field : table.fields()) {
    if (field.facts().has_flag) flags.push_back(flag_of(field.facts()));
  }
  return fmt::format("unknown flag '{}'; {}`tandem {} --help` lists the flags", flag,
                     did_you_mean(flag, flags), command.name);
}

// Joins "--pin" and "false" to "--pin=false", because CLI11 takes a bool's value only in this form.
std::vector<std::string> join_bools(const SettingsTable& table,
                                    const std::vector<std::string>& args) {
  constexpr std::array<std::string_view, 6> kWords = {"true", "false", "yes", "no", "on", "off"};
  std::vector<std::string> joined;
  bool after_bool = false;
  for (const std::string& arg : args) {
    if (after_bool && std::ranges::find(kWords, arg) != kWords.end()) {
      joined.back() += "=" + arg;
      after_bool = false;
      continue;
    }
    after_bool = std::ranges::any_of(table.fields(), [&](const SettingsField& field) {
      return field.facts().has_flag && is_bool(field.facts()) && flag_of(field.facts()) == arg;
    });
    joined.push_back(arg);
  }
  return joined;
}

using GivenFlags = std::vector<std::pair<SettingsField*, std::vector<std::string>>>;

// Stores the texts of the flags in `args`. Returns the error message if there is a mistake.
std::optional<std::string> parse(const CommandInfo& command, SettingsTable& table,
                                 const std::vector<std::string>& args, const GivenBeside& beside,
                                 GivenFlags& given) {
  CLI::App app;
  app.set_help_flag();
  app.allow_extras();
  std::vector<std::pair<SettingsField*, CLI::Option*>> options;
  // Only results() is read, but CLI11 requires a target for each flag.
  std::deque<std::vector<std::string>> sinks;
  try {
    for (SettingsField& field : table.fields()) {
      if (!field.facts().has_flag) continue;
      CLI::Option* option = nullptr;
      if (is_bool(field.facts())) {
        option = app.add_flag(flag_names(field));
      } else {
        option = app.add_option(flag_names(field), sinks.emplace_back());
        option->allow_extra_args(field.facts().many);
        if (!is_list(field.facts())) option->multi_option_policy(CLI::MultiOptionPolicy::Throw);
      }
      options.emplace_back(&field, option);
    }
    // CLI11 expects the arguments in reverse order.
    std::vector<std::string> words = join_bools(table, args);
    std::ranges::reverse(words);
    app.parse(std::move(words));
  } catch (const CLI::ParseError& failure) {
    return failure.what();
  }
  for (const std::string& extra : app.remaining()) {
    const bool is_word = !extra.starts_with('-');
    if (!is_word || beside.words == nullptr || beside.words->size() == beside.most_words) {
      return unexpected(extra, table, command);
    }
    beside.words->push_back(extra);
  }
  for (const auto& [field, option] : options) {
    if (option->count() == 0) continue;
    if (!is_list(field->facts()) && option->count() > 1) {
      return fmt::format("{} is given {} times; once is enough", flag_of(field->facts()),
                         option->count());
    }
    given.emplace_back(field, option->results());
  }
  return std::nullopt;
}

Status read_sources(const CommandInfo& command, SettingsTable& table, const CommonSettings& common,
                    const GivenFlags& given) {
  std::string config = common.config;
  if (config.empty()) {
    if (const char* variable = std::getenv("TANDEM_CONFIG")) config = variable;
  }
  FileReader reader{"tandem " + command.name, {}, command.keys_are_judged};
  if (all_commands != nullptr) reader.other_keys = [] { return file_keys(*all_commands); };
  if (!config.empty()) TANDEM_TRY(table.load_file(config, reader));
  const auto warn = [&](const std::string& message) {
    fmt::print(stderr, "tandem {}: {}\n", command.name, message);
  };
  TANDEM_TRY(load_variables(table, command.keys_are_judged ? nullptr : reader.other_keys, warn));
  for (const auto& [field, texts] : given) TANDEM_TRY(field->set(texts, flag_of(field->facts())));
  return {};
}

std::string overview(const Subcommands& commands) {
  std::size_t width = 0;
  for (const Subcommand& row : commands.rows) {
    width = std::max(width, std::string_view(row.name).size());
  }
  std::string out(commands.head);
  for (const Subcommand& row : commands.rows) {
    out += fmt::format("  {:<{}}  {}\n", row.name, width, row.summary);
  }
  return out.append(commands.foot);
}

}  // namespace

HelpReader::HelpReader() {
  TANDEM_CHECK(help_reader == nullptr, "two readers of help at once");
  help_reader = this;
}

HelpReader::~HelpReader() {
  help_reader = nullptr;
}

int run_subcommand(const Subcommands& commands, const std::vector<std::string>& args) {
  const Outermost outermost(commands);
  if (args.empty()) {
    fmt::print(stderr, "{}", overview(commands));
    return kExitUsage;
  }
  const std::string& name = args.front();
  if (name == "help" && args.size() > 1) {
    std::vector<std::string> asked(args.begin() + 1, args.end());
    asked.emplace_back("--help");
    return run_subcommand(commands, asked);
  }
  if (name == "--help" || name == "-h" || name == "help") {
    if (help_reader != nullptr) {
      help_reader->read(commands);
    } else {
      fmt::print("{}", overview(commands));
    }
    return kExitOk;
  }
  std::vector<std::string> names;
  for (const Subcommand& row : commands.rows) {
    if (name == row.name) return row.run({args.begin() + 1, args.end()});
    names.emplace_back(row.name);
  }
  fmt::print(stderr, "{}: unknown {} '{}'; {}there are {}\n", commands.program, commands.kind, name,
             did_you_mean(name, names), fmt::join(names, ", "));
  return kExitUsage;
}

std::optional<int> read_settings(const CommandInfo& command, SettingsTable table,
                                 const std::vector<std::string>& args, const GivenBeside& beside) {
  CommonSettings common;
  add_common_settings(table, common);
  GivenFlags given;
  if (const auto mistake = parse(command, table, args, beside, given))
    return report_usage(command, *mistake);
  for (const auto& [field, texts] : given) {
    if (field->facts().group != "Common") continue;
    if (Status status = field->set(texts, flag_of(field->facts())); !status) {
      return report_usage(command, status.message());
    }
  }
  if (common.help || common.help_all) {
    if (help_reader != nullptr) {
      help_reader->read(command, table);
    } else {
      fmt::print("{}", help_text(command, table, common.help_all));
    }
    return kExitOk;
  }
  if (beside.config != nullptr) *beside.config = common.config;
  Status status = read_sources(command, table, common, given);
  if (status && common.print_config) {
    fmt::print("{}", table.to_toml());
    return kExitOk;
  }
  if (status) status = table.validate();
  if (!status) return report_usage(command, status.message());
  if (beside.words != nullptr && beside.words->size() < beside.least_words) {
    return report_usage(command, fmt::format("which {}? Usage: tandem {} {}", beside.word,
                                             command.name, command.usage));
  }
  return std::nullopt;
}

bool has_no_form(const SettingsFacts& facts) {
  return is_bool(facts) && (facts.has_key || facts.default_text == "true");
}

Status write_output(const std::string& setting, const std::string& path, std::string_view text) {
  errno = 0;
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) return errno_status(fmt::format("{}: {}", setting, path), errno);
  return {};
}

int report_failure(const CommandInfo& command, const Status& status) {
  constexpr int kPatienceMs = 1000;
  if (log::format() == log::Format::json) {
    log::error("tandem {}: {}", command.name, status.message());
  } else {
    say_on_stderr(fmt::format("tandem {}: {}\n", command.name, status.message()), kPatienceMs);
  }
  return status.code() == StatusCode::invalid_argument ? kExitUsage : kExitFailure;
}

}  // namespace tandem
