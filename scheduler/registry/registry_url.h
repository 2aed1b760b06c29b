// Where a registry is: "sqlite:PATH" or "etcd://HOST[:PORT][,HOST[:PORT]...][/PREFIX]".
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "base/status.h"
#include "scheduler/registry/etcd_store.h"

namespace tandem {

struct SqliteUrl {
  std::string path;
};

// Says what is wrong with it, with an example. Names are not looked up yet.
Result<std::variant<SqliteUrl, EtcdOptions>> parse_registry_url(std::string_view url);

}  // namespace tandem
