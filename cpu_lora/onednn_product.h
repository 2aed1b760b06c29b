// Products by oneDNN (product.h): the only file pair of this folder that sees it.
#pragma once

#include <memory>

#include "cpu_lora/product.h"

namespace tandem {

// Weights and x are converted to `compute`, f32 or bf16. Without AMX f32 is the faster one (290
// against 166 GFLOP/s on two cores with AVX-512).
std::unique_ptr<Product> make_onednn_product(DType dtype, DType compute);

// Tells oneDNN, which is built on OpenMP, to stay on the calling thread.
void use_one_thread();

}  // namespace tandem
