// A registry's address: "sqlite:PATH" or "etcd://HOST[:PORT][,HOST[:PORT]...][/PREFIX]".
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "base/status.h"
#include "scheduler/cluster/registry/etcd_store.h"

namespace tandem {

struct SqliteUrl {
  std::string path;
};

// An error names what is wrong and gives an example. Names are not looked up yet.
Result<std::variant<SqliteUrl, EtcdOptions>> parse_registry_url(std::string_view url);

}  // namespace tandem
