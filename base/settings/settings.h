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

// The facts about one row, from which flags, help and pages are made.
struct SettingsFacts {
  SettingsMember::Target target;
  std::function<void()> store;  // sets a member of another type; empty: the target
  std::string key, help, group;
  std::string meta;                // empty: a name suited to the type
  std::string default_text;        // empty: no default
  std::string flag_name;           // empty: from the key
  std::string source = "default";  // "--port", "f.toml:3", ...
  std::optional<double> low, high;
  std::vector<std::string> choices;                 // empty: any value
  std::function<Status(const std::string&)> check;  // for texts; empty: any text
  bool required = false;
  bool secret = false;
  std::string old_flag;  // "gpu": still accepted on the command line, but not shown in help
  bool expert = false;   // for tests and measurements: only shown in the full help
  bool has_key = true;   // in files; if it has a flag, also as a variable
  bool has_flag = true;  // false: the flag belongs to another command
  bool many = false;     // for lists: one flag takes all words up to the next flag
  char letter = 0;       // the short flag
};

std::string flag_of(const SettingsFacts& facts);         // "--max-model-len"
std::string environment_of(const SettingsFacts& facts);  // "TANDEM_MAX_MODEL_LEN", or empty
std::string value_name_of(const SettingsFacts& facts);  // "N", "DIR", "auto|cuda"; empty for a bool
std::string value_text_of(const SettingsFacts& facts);  // in TOML; a secret as "(set)"
inline bool is_bool(const SettingsFacts& facts) {
  return std::holds_alternative<bool*>(facts.target);
}
inline bool is_list(const SettingsFacts& facts) {
  return std::holds_alternative<std::vector<std::string>*>(facts.target);
}

// One row of the table. The member must outlive it.
class SettingsField {
 public:
  // The row's properties; each function returns the row, so that calls can be chained.
  SettingsField& meta(std::string name);  // the value's name in the help: "DIR"
  SettingsField& range(double low, double high);
  SettingsField& at_least(double low);
  SettingsField& choices(std::vector<std::string> allowed);
  SettingsField& check(std::function<Status(const std::string&)> judge);  // for texts
  SettingsField& required();  // validate() refuses an empty string or list
  SettingsField& secret();    // the value is never printed
  SettingsField& old_flag(std::string name);
  SettingsField& expert();                   // left out of --help and docs/settings.md
  SettingsField& flag_only();                // no TOML key and no environment name
  SettingsField& flag_as(std::string name);  // "adapter": --adapter, regardless of the key
  SettingsField& short_flag(char letter);
  SettingsField& many();          // for lists: allows `--flag A B C` besides `--flag A --flag B`
  SettingsField& in_file_only();  // another command's: read from files, but no flag or variable

  const SettingsFacts& facts() const { return facts_; }

  // Reads a value from text; a list takes all texts, other types exactly one. The message names the
  // field and `source`.
  Status set(const std::vector<std::string>& texts, std::string source);
  Status validate() const;

 private:
  friend class SettingsTable;
  SettingsField(SettingsMember member, std::string key, std::string help, std::string group);
  Status bad(std::string_view problem) const;

  SettingsFacts facts_;
};

// The reader of a config file, which several commands may share.
struct FileReader {
  std::string command;  // the command whose --help lists the keys: "tandem serve"; empty: none
  // Other commands' keys, which are skipped whatever their values. Only called at the first key
  // that is not in the table.
  std::function<std::vector<std::string>()> other_keys;
  bool any_key = false;  // skips all other keys
};

// Not thread-safe: it is filled and read once, at startup.
class SettingsTable {
 public:
  using Lookup = std::function<const char*(const char* name)>;  // as std::getenv

  // The heading in the help for fields added from now on.
  void group(std::string name) { group_ = std::move(name); }
  // The member's present value becomes the default. Keys are unique.
  SettingsField& add(SettingsMember member, std::string key, std::string help);

  // Reads a TOML file of flat `key = value` lines. An unknown key, a table or a value of the
  // wrong type is an error that names the file, the line and, for a key, the most similar known
  // key.
  Status load_file(const std::filesystem::path& path, const FileReader& reader = {});
  Status load_environment(const Lookup& lookup);
  // Declares that `key` was a setting once; `remedy` is what to do instead: "use gpus". Files and
  // variables that still have it are refused.
  void retire(std::string key, std::string remedy);
  // The error for a retired key found in `source`; ok: there is no retired key of this name.
  Status check_retired(std::string_view key, std::string_view source) const;
  // Checks ranges, choices and required fields; call once, after all sources are read. Also sets
  // members whose type differs from their target's.
  Status validate() const;

  SettingsField* find(std::string_view key);
  std::deque<SettingsField>& fields() { return fields_; }
  const std::deque<SettingsField>& fields() const { return fields_; }

  // All keys with their values and sources, as a TOML file that load_file() accepts (secrets appear
  // only as comments).
  std::string to_toml() const;

 private:
  std::string nearest_key(std::string_view key, const std::vector<std::string>& others) const;

  std::string group_;
  std::deque<SettingsField> fields_;  // a deque, so that rows never move
  struct Retired {
    std::string key, remedy;
  };
  std::vector<Retired> retired_;
};

// The candidate closest to `text` by edit distance; empty if none is close.
std::string nearest(std::string_view text, const std::vector<std::string>& candidates);

}  // namespace tandem
