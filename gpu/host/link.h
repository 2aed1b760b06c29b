// Copies over an emulated link.
#pragma once

#include <cstddef>

#include "gpu/link_pacer.h"

namespace tandem::host {

// A real copy, in pieces, that takes at least as long as over the link.
void copy_over_link(LinkPacer& link, void* device, const void* host, std::size_t bytes);

}  // namespace tandem::host
