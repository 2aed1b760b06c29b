// Settings from TANDEM_... variables, which others may have put into the environment, too.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/settings/settings.h"

namespace tandem {

// Reads the table's variables. `warn` is told of what is passed over but was perhaps meant: a name
// that is nearly one of ours (`other_keys`: what variables of other commands are named after; asked
// if there is a name that the table does not have; null: no name is judged), and the TANDEM_PORT
// that Kubernetes sets to a URL where a Service is named tandem.
Status load_variables(SettingsTable& table,
                      const std::function<std::vector<std::string>()>& other_keys,
                      const std::function<void(const std::string&)>& warn);

}  // namespace tandem
