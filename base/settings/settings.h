// One table per command yields its struct, TOML keys, flags, environment names and help.
//
// A command fills a struct with its defaults, adds every member to a SettingsTable, and reads the
// sources in order of precedence: config file, environment, flags (tools/cli/flags/flags.h). Each
// later source overwrites the member; the field remembers which one did, so that a bad value is
// reported with the place it came from.
//
//   struct Settings { std::string host = "127.0.0.1"; std::int64_t port = 8000; };
//   table.group("Server");
//   table.add(s.host, "host", "address to listen on").meta("ADDR");
//   table.add(s.port, "port", "port to listen on; 0: any free one").range(0, 65535);
//
// gives the TOML key `port`, the flag `--port` and the variable TANDEM_PORT. Underscores of a key
// are dashes in its flag.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/settings/settings_member.h"
#include "base/status.h"

namespace tandem {

class SettingsTable;

// What is known of one row: what flags, help and pages are made from.
struct SettingsFacts {
  SettingsMember::Target target;
  std::function<void()> store;  // into a member of another type; empty: the target is the member
  std::string key, help, group;
  std::string meta;                // empty: a name that fits the type
  std::string default_text;        // empty: none
  std::string flag_name;           // empty: the key
  std::string source = "default";  // "--port", "f.toml:3", ...
  std::optional<double> low, high;
  std::vector<std::string> choices;                 // empty: any
  std::function<Status(const std::string&)> check;  // of a text; empty: any
  bool required = false;
  bool secret = false;
  std::string old_flag;  // "gpu": taken on the command line as well, and no help names it
  bool expert = false;   // for tests and measurements: help shows it only where all is asked for
  bool has_key = true;   // in files; with the flag also a variable
  bool has_flag = true;  // false: another command's
  bool many = false;     // of a list: one flag takes all words up to the next
  char letter = 0;       // of the short flag
};

std::string flag_of(const SettingsFacts& facts);         // "--max-model-len"
std::string environment_of(const SettingsFacts& facts);  // "TANDEM_MAX_MODEL_LEN", or empty
std::string value_name_of(const SettingsFacts& facts);  // "N", "DIR", "auto|cuda"; empty for a bool
std::string value_text_of(const SettingsFacts& facts);  // as TOML; a secret as "(set)"
inline bool is_bool(const SettingsFacts& facts) {
  return std::holds_alternative<bool*>(facts.target);
}
inline bool is_list(const SettingsFacts& facts) {
  return std::holds_alternative<std::vector<std::string>*>(facts.target);
}

// One row of the table. Its member must outlive it.
class SettingsField {
 public:
  // What makes a row; each returns the row, so that they chain.
  SettingsField& meta(std::string name);  // the value's name in the help: "DIR"
  SettingsField& range(double low, double high);
  SettingsField& at_least(double low);
  SettingsField& choices(std::vector<std::string> allowed);
  SettingsField& check(std::function<Status(const std::string&)> judge);  // of a text
  SettingsField& required();  // validate() refuses an empty string or list
  SettingsField& secret();    // its value is never printed
  SettingsField& old_flag(std::string name);
  SettingsField& expert();                   // left out of --help and docs/settings.md
  SettingsField& flag_only();                // no TOML key and no environment name
  SettingsField& flag_as(std::string name);  // "adapter": --adapter, whatever the key
  SettingsField& short_flag(char letter);
  SettingsField& many();          // of a list: `--flag A B C` as well as `--flag A --flag B`
  SettingsField& in_file_only();  // another command's: accepted in files, neither flag nor variable

  const SettingsFacts& facts() const { return facts_; }

  // Reads a value from text; a list takes all texts, anything else exactly one. The message names
  // the field and `source`.
  Status set(const std::vector<std::string>& texts, std::string source);
  Status validate() const;

 private:
  friend class SettingsTable;
  SettingsField(SettingsMember member, std::string key, std::string help, std::string group);
  Status bad(std::string_view problem) const;

  SettingsFacts facts_;
};

// Who reads a config file, which several commands may share.
struct FileReader {
  std::string command;  // whose --help lists the keys: "tandem serve"; empty: nobody's
  // Other commands' keys, which are passed over, whatever their values. Asked at the first key that
  // the table does not have.
  std::function<std::vector<std::string>()> other_keys;
  bool any_key = false;  // all others are passed over
};

// Not thread-safe: filled and read once, at start.
class SettingsTable {
 public:
  using Lookup = std::function<const char*(const char* name)>;  // as std::getenv

  // Fields added from now on appear under this heading of the help.
  void group(std::string name) { group_ = std::move(name); }
  // The member's present value is the default. Keys are unique.
  SettingsField& add(SettingsMember member, std::string key, std::string help);

  // Reads a TOML file of flat `key = value` lines. A key that no command knows, a table or a value
  // of another type is an error that names the file, the line and, for a key, the nearest known
  // one.
  Status load_file(const std::filesystem::path& path, const FileReader& reader = {});
  Status load_environment(const Lookup& lookup);
  // Says that `key` was a setting once and what to do instead: "use gpus". Files and variables that
  // still have it are refused.
  void retire(std::string key, std::string remedy);
  // The error for a key that is gone, given by `source`; ok: there never was one of this name.
  Status check_retired(std::string_view key, std::string_view source) const;
  // Ranges, choices and required fields, once, after all sources are read. Members of other types
  // than the targets' get their values here.
  Status validate() const;

  SettingsField* find(std::string_view key);
  std::deque<SettingsField>& fields() { return fields_; }
  const std::deque<SettingsField>& fields() const { return fields_; }

  // Every key with its value and source, as a TOML file that load_file() reads back (secrets
  // aside, which are comments).
  std::string to_toml() const;

 private:
  std::string nearest_key(std::string_view key, const std::vector<std::string>& others) const;

  std::string group_;
  std::deque<SettingsField> fields_;  // rows never move
  struct Retired {
    std::string key, remedy;
  };
  std::vector<Retired> retired_;
};

// The text of `candidates` closest to `text` by edit distance; empty when none is close.
std::string nearest(std::string_view text, const std::vector<std::string>& candidates);

}  // namespace tandem
