#include "engine/batching/adapter_keeper.h"

#include <cstddef>
#include <new>
#include <utility>

namespace tandem {

void AdapterKeeper::advance() {
  for (std::size_t i = 0; i < requests_.size();) {
    std::optional<Status> done = advance(requests_[i]);
    if (!done) {
      ++i;
      continue;
    }
    requests_[i].done.set_value(*std::move(done));
    requests_.erase(requests_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

void AdapterKeeper::end(const Status& why) noexcept {
  try {
    for (KeepRequest& request : requests_) request.done.set_value(why);
  } catch (const std::bad_alloc&) {  // the promises break, which is an answer, too
  }
  requests_.clear();
}

std::optional<Status> AdapterKeeper::advance(const KeepRequest& request) {
  ServedAdapter& adapter = *request.adapter;
  if (adapter.residency() == Residency::resident) {
    const AdapterProof proof = device_->proof(adapter);
    if (Status bad = proof.status(); !bad) return bad;
    if (proof.is_given()) return Status();
    return std::nullopt;  // the store notifies the engine when it is
  }
  if (device_->holds().is_kept(adapter)) return std::nullopt;
  if (Status fits = gate_->check_keep(adapter, max_model_len_); !fits) return fits;
  switch (device_->start(request.adapter)) {
    case DeviceTier::Start::on_its_way:
      device_->holds().keep(adapter);
      return std::nullopt;
    case DeviceTier::Start::busy:
      return std::nullopt;
    case DeviceTier::Start::not_in_host_tier:
      if (Status failure = adapter.home().read_failure(request.readings_before); !failure)
        return failure;
      store_->request_read(request.adapter);
      return std::nullopt;
    case DeviceTier::Start::no_room:
      break;
  }
  return error(StatusCode::resource_exhausted,
               "there is no room on the device for adapter '{}': what is there is in use or "
               "pinned; try again, or raise pool_gb",
               adapter.name());
}

}  // namespace tandem
