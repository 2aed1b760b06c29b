#include "shm/core_claims.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <new>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "shm/control.h"

namespace tandem {
namespace {

constexpr std::uint32_t kCoresMagic = 0x43726e54;  // "TnrC"
constexpr std::size_t kWords = (kMaxClaimedCpu + 1) / 64;
constexpr const char* kPurpose = "cores";

// 0 identity | 16 model | 1040 engine's cpus, a bit each | 9232 workers'
struct CoresLayout {
  std::uint32_t magic;
  std::int32_t pid;
  std::atomic<std::uint32_t> version;  // kCoresVersion; 0: not ready; stored last
  std::uint32_t reserved;
  char model[kMaxModelName];
  std::uint64_t engine[kWords];
  std::uint64_t workers[kWords];
};
static_assert(offsetof(CoresLayout, model) == 16 && offsetof(CoresLayout, engine) == 1040);
static_assert(sizeof(CoresLayout) == 1040 + 2 * 8 * kWords);

void put_bits(const std::vector<int>& cpus, std::uint64_t* words) {
  for (const int cpu : cpus) {
    if (cpu < 0 || cpu > kMaxClaimedCpu) continue;
    words[cpu / 64] |= std::uint64_t{1} << (cpu % 64);
  }
}

std::vector<int> take_bits(const std::uint64_t* words) {
  std::vector<int> cpus;
  for (std::size_t word = 0; word < kWords; ++word) {
    for (int bit = 0; words[word] != 0 && bit < 64; ++bit) {
      if ((words[word] >> bit & 1) != 0) cpus.push_back(static_cast<int>(word) * 64 + bit);
    }
  }
  return cpus;
}

std::optional<ClaimedCores> read_claim(const std::string& name) {
  Result<ShmRegion> region = ShmRegion::open(name, ShmRegion::Access::read_only);
  if (!region || region->bytes() < sizeof(CoresLayout)) return std::nullopt;
  region->survive_truncation();
  const auto* const shared = reinterpret_cast<const CoresLayout*>(region->data());
  // acquire: pairs with the release in create(), after everything else
  if (shared->version.load(std::memory_order_acquire) != kCoresVersion) return std::nullopt;
  if (shared->magic != kCoresMagic) return std::nullopt;
  ClaimedCores claim;
  claim.pid = shared->pid;
  claim.model.assign(shared->model, strnlen(shared->model, sizeof shared->model));
  claim.engine_cpus = take_bits(shared->engine);
  claim.worker_cpus = take_bits(shared->workers);
  return claim;
}

}  // namespace

std::vector<int> ClaimedCores::cpus() const {
  std::vector<int> all = engine_cpus;
  std::ranges::copy(worker_cpus, std::back_inserter(all));
  return all;
}

Result<CoreClaimHolder> CoreClaimHolder::create(const ClaimedCores& cores) {
  TANDEM_ASSIGN(ShmRegion region, ShmRegion::create(kPurpose, sizeof(CoresLayout)));
  auto* const shared = new (region.data()) CoresLayout{};
  shared->magic = kCoresMagic;
  shared->pid = ::getpid();
  // A long name is cut: it is only displayed.
  cores.model.copy(shared->model, sizeof shared->model - 1);
  put_bits(cores.engine_cpus, shared->engine);
  put_bits(cores.worker_cpus, shared->workers);
  shared->version.store(kCoresVersion, std::memory_order_release);
  return CoreClaimHolder(std::move(region));
}

std::vector<ClaimedCores> read_core_claims() {
  std::vector<ClaimedCores> claims;
  for (const FoundShmRegion& found : find_shm_regions(kPurpose)) {
    if (found.is_own) continue;
    if (std::optional<ClaimedCores> claim = read_claim(found.name)) {
      claims.push_back(*std::move(claim));
    }
  }
  std::ranges::sort(claims, {}, &ClaimedCores::pid);
  return claims;
}

PlanningTurn::PlanningTurn(std::chrono::milliseconds patience) {
  constexpr std::chrono::milliseconds kPause(5);
  descriptor_ = ::open("/dev/shm", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor_ < 0) return;
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (!(has_lock_ = ::flock(descriptor_, LOCK_EX | LOCK_NB) == 0) && errno == EWOULDBLOCK &&
         std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(kPause);
  }
}

PlanningTurn::~PlanningTurn() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace tandem
