// The places of an adapter's weights, and the events that move them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tandem {

enum class Residency : std::uint8_t {
  on_disk,   // in its folder only
  host,      // in the host tier, or being read into it, layer by layer (AdapterReading)
  loading,   // being copied to the device, layer by layer; the host tier keeps it meanwhile
  resident,  // on the device; the host tier may have dropped its copy
  evicting,  // its device memory is being freed
};

enum class ResidencyEvent : std::uint8_t {
  read,             // from its folder into the host tier, or soon will be
  dropped,          // by the host tier, for lack of room, or after a failed reading
  load,             // copies to the device are enqueued
  loaded,           // the last of them has arrived
  failed,           // they will not arrive
  evict,            // to make room on the device, or as it was unloaded
  evicted,          // the host tier still has it
  evicted_to_disk,  // the host tier does not have it
};

constexpr std::optional<Residency> next(Residency state, ResidencyEvent event) {
  using enum Residency;
  using On = ResidencyEvent;
  if (state == on_disk && event == On::read) return host;
  if (state == host && event == On::dropped) return on_disk;
  if (state == host && event == On::load) return loading;
  if (state == loading && event == On::loaded) return resident;
  if (state == loading && event == On::failed) return host;
  if (state == resident && event == On::evict) return evicting;
  if (state == evicting && event == On::evicted) return host;
  if (state == evicting && event == On::evicted_to_disk) return on_disk;
  return std::nullopt;  // any other pair is a bug
}
// Memory that the compute stream may read, or the load stream may write, must not be freed.
static_assert(!next(Residency::loading, ResidencyEvent::evict));
static_assert(!next(Residency::loading, ResidencyEvent::dropped));
static_assert(!next(Residency::on_disk, ResidencyEvent::load));
static_assert(!next(Residency::evicting, ResidencyEvent::loaded));

constexpr std::string_view tier_name(Residency state) {
  switch (state) {
    case Residency::on_disk:
      return "disk";
    case Residency::host:
    case Residency::evicting:
      return "host";
    case Residency::loading:
      return "loading";
    case Residency::resident:
      return "device";
  }
  return "?";
}

}  // namespace tandem
