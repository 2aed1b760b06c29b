#include "tools/cli/log_settings.h"

#include "base/log.h"

namespace tandem {

void add_log_settings(SettingsTable& table, LogSettings& settings) {
  table.group("Log");
  table
      .add(settings.log_level, "log_level",
           "what reaches standard error: debug, info, warning, error or off, and other levels for "
           "folders of the sources, as in info,handoff=debug")
      .meta("LEVELS")
      .check([](const std::string& text) -> Status {
        // The setting's name comes before it and makes one sentence of both.
        const auto levels = log::Levels::parse(text);
        return levels ? Status() : invalid("cannot be read: {}", levels.status().message());
      });
  table.add(settings.log_format, "log_format", "lines of text, or an object of JSON on each")
      .choices({"text", "json"});
}

void set_up_log(const LogSettings& settings) {
  if (const auto levels = log::Levels::parse(settings.log_level)) log::set_levels(*levels);
  if (const auto format = log::parse_format(settings.log_format)) log::set_format(*format);
}

}  // namespace tandem
