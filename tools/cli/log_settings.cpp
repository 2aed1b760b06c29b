#include "tools/cli/log_settings.h"

#include "base/log/log.h"

namespace tandem {

void add_log_settings(SettingsTable& table, LogSettings& settings) {
  table.group("Log");
  table
      .add(settings.log_level, "log_level",
           "what goes to standard error: debug, info, warning, error or off; folders of the "
           "sources may have levels of their own, as in info,handoff=debug")
      .meta("LEVELS")
      .check([](const std::string& text) -> Status {
        // The caller puts the setting's name before this text, so that both make one sentence.
        const auto levels = log::Levels::parse(text);
        return levels ? Status() : invalid("cannot be read: {}", levels.status().message());
      });
  table
      .add(settings.log_format, "log_format", "text: plain lines; json: a JSON object on each line")
      .choices({"text", "json"});
}

void set_up_log(const LogSettings& settings) {
  if (const auto levels = log::Levels::parse(settings.log_level)) log::set_levels(*levels);
  if (const auto format = log::parse_format(settings.log_format)) log::set_format(*format);
}

}  // namespace tandem
