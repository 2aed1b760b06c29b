// The guarantees of a registry, whatever its store: each case runs on SQLite and on etcd.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "scheduler/cluster/registry/registry.h"

namespace tandem::testing {

struct RegistryBench {
  // Makes another registry on the same store, which was empty at first.
  std::function<std::unique_ptr<Registry>()> connect;
  // Advances the store's clock; does nothing if that is impossible.
  std::function<void(std::chrono::milliseconds)> pass_time;
  bool turns_clock = false;
};

struct RegistryCase {
  const char* name;
  void (*run)(const RegistryBench& bench);
};
std::span<const RegistryCase> registry_cases();

AdapterEntry make_adapter(const std::string& name, std::uint64_t content);
EngineEntry make_engine(const std::string& id);

}  // namespace tandem::testing
