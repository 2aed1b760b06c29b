// Settings from TANDEM_... variables. Other programs may have set variables with this prefix, too.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/settings/settings.h"

namespace tandem {

// Reads the table's variables. `warn` receives a message for each ignored variable that was perhaps
// meant: a name close to one of ours (`other_keys` returns the keys of other commands and is called
// only if the table does not have a name; null: no name is checked), and the TANDEM_PORT that
// Kubernetes sets to a URL where a Service is named tandem.
Status load_variables(SettingsTable& table,
                      const std::function<std::vector<std::string>()>& other_keys,
                      const std::function<void(const std::string&)>& warn);

}  // namespace tandem
