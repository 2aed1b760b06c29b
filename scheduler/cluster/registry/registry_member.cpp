#include "scheduler/cluster/registry/registry_member.h"

#include <utility>

#include "base/log/log.h"

namespace tandem {

RegistryMember::RegistryMember(std::unique_ptr<Registry> registry, EngineEntry engine,
                               std::function<void()> on_change, const MemberOptions& options)
    : registry_(std::move(registry)),
      engine_(std::move(engine)),
      on_change_(std::move(on_change)),
      options_(options) {}

Result<std::unique_ptr<RegistryMember>> RegistryMember::join(std::unique_ptr<Registry> registry,
                                                             const EngineEntry& engine,
                                                             std::function<void()> on_change,
                                                             const MemberOptions& options) {
  std::unique_ptr<RegistryMember> member(
      new RegistryMember(std::move(registry), engine, std::move(on_change), options));
  const Status begun = member->begin();
  const bool is_out = begun.code() == StatusCode::unavailable;
  if (is_out) {
    log::warning("registry: {}; the engine starts without it, and registers when it answers",
                 begun.message());
    member->must_read_all_ = true;
  } else {
    TANDEM_TRY(begun);
  }
  const auto step = [raw = member.get()] {
    const Status kept = raw->keep_lease();
    return kept ? raw->follow() : kept;
  };
  member->loop_ = std::make_unique<RegistryLoop>("registry", step, is_out);
  return member;
}

Status RegistryMember::begin() {
  TANDEM_TRY(register_anew());
  return read_all();
}

RegistryMember::~RegistryMember() {
  stop();
  if (lease_.lease == 0) return;
  const Status left = registry_->release(lease_);
  if (!left) log::warning("leaving the registry: {}; the lease will lapse", left.message());
}

std::optional<AdapterEntry> RegistryMember::find_adapter(const std::string& name) const {
  const WantedVersion wanted = parse_versioned_name(name);
  const std::lock_guard lock(mutex_);
  const auto found = mirror_.adapters.find(wanted.name);
  if (found == mirror_.adapters.end()) return std::nullopt;
  if (wanted.version == 0) return found->second.rbegin()->second;
  const auto version = found->second.find(wanted.version);
  if (version == found->second.end()) return std::nullopt;
  AdapterEntry entry = version->second;
  entry.name = name;
  return entry;
}

std::vector<AdapterEntry> RegistryMember::newest_adapters() const {
  const std::lock_guard lock(mutex_);
  std::vector<AdapterEntry> newest;
  newest.reserve(mirror_.adapters.size());
  for (const auto& [name, versions] : mirror_.adapters) {
    newest.push_back(versions.rbegin()->second);
  }
  return newest;
}

std::vector<EngineEntry> RegistryMember::other_engines() const {
  const std::lock_guard lock(mutex_);
  std::vector<EngineEntry> others;
  for (const auto& [id, entry] : mirror_.engines) {
    if (id != engine_.id) others.push_back(entry);
  }
  return others;
}

bool RegistryMember::has_read() const {
  const std::lock_guard lock(mutex_);
  return has_read_;
}

Status RegistryMember::register_anew() {
  TANDEM_ASSIGN(lease_, registry_->register_engine(engine_, options_.ttl));
  keep_at_ = std::chrono::steady_clock::now() + options_.ttl / 3;
  log::info("registry: engine {} is registered at {}", engine_.id, engine_.address);
  return {};
}

Status RegistryMember::give_back() {
  if (lease_.lease == 0) return {};
  TANDEM_TRY(registry_->release(lease_));
  lease_ = {};
  log::info("registry: engine {} has given its lease back", engine_.id);
  return {};
}

Status RegistryMember::keep_lease() {
  if (!serving_.load(std::memory_order_relaxed))
    return give_back();  // relaxed: the flag guards no other data
  if (lease_.lease == 0) return register_anew();
  if (std::chrono::steady_clock::now() < keep_at_) return {};
  Status kept = registry_->keep_alive(lease_);
  if (kept.code() == StatusCode::not_found) {
    log::warning("registry: the lease of this engine had lapsed; it registers again");
    return register_anew();
  }
  if (kept) keep_at_ = std::chrono::steady_clock::now() + options_.ttl / 3;
  return kept;
}

Status RegistryMember::follow() {
  if (must_read_all_) {
    TANDEM_TRY(read_all());
    if (on_change_) on_change_();
  }
  TANDEM_ASSIGN(const RegistryNews news, registry_->watch(revision_, options_.patience));
  must_read_all_ = news.lost;
  if (news.lost) return {};
  revision_ = news.revision;
  if (take(news) && on_change_) on_change_();
  return {};
}

Status RegistryMember::read_all() {
  TANDEM_ASSIGN(const RegistrySnapshot all, registry_->snapshot());
  const std::lock_guard lock(mutex_);
  mirror_.set(all);
  has_read_ = true;
  revision_ = all.revision;
  must_read_all_ = false;
  return {};
}

bool RegistryMember::take(const RegistryNews& news) {
  const std::lock_guard lock(mutex_);
  mirror_.apply(news);
  return !news.adapters.empty() || !news.removed_adapters.empty();
}

}  // namespace tandem
