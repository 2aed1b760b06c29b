// Products of bf16 by AMX tiles (product.h).
#pragma once

#include <memory>

#include "cpu_lora/worker/product.h"

namespace tandem {

// Whether this process may use AMX with bf16. The first call requests it from the kernel, so call
// it before system calls are filtered. Thread-safe.
bool has_amx();

std::unique_ptr<Product> make_amx_product();  // null without AMX
// The same loops with tiles in memory. `plain`: without vector instructions too.
std::unique_ptr<Product> make_emulated_amx_product(bool plain);

}  // namespace tandem
