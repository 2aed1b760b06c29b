// Products by oneDNN (product.h): adds to base/onednn the packing of weights and the padding of
// rows.
#pragma once

#include <memory>

#include "cpu_lora/worker/product.h"

namespace tandem {

// Weights and x are converted to `compute`, f32 or bf16. Without AMX, f32 is faster (290 against
// 166 GFLOP/s on two cores with AVX-512).
std::unique_ptr<Product> make_onednn_product(DType dtype, DType compute);

}  // namespace tandem
