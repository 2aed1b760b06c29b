#include "cpu_lora/worker/product.h"

#include <exception>

#include "cpu_lora/worker/amx_product.h"
#include "cpu_lora/worker/onednn_product.h"

namespace tandem {
namespace {

Status only_bf16(DType dtype) {
  return error(StatusCode::unavailable, "products of bf16 take weights of bf16, not {}",
               to_string(dtype));
}

}  // namespace

Result<std::unique_ptr<Product>> make_product(DType dtype, ProductKind kind) {
  if (dtype == DType::i32) return invalid("a delta of i32");
  if (kind == ProductKind::best) {
    kind = dtype == DType::bf16 && has_amx() ? ProductKind::amx : ProductKind::onednn;
  }
  if (kind != ProductKind::onednn && dtype != DType::bf16) return only_bf16(dtype);
  try {
    switch (kind) {
      case ProductKind::amx: {
        std::unique_ptr<Product> made = make_amx_product();
        if (made != nullptr) return made;
        return error(StatusCode::unavailable, "this CPU has no AMX tiles for bf16");
      }
      case ProductKind::amx_emulated:
        return make_emulated_amx_product(false);
      case ProductKind::onednn_bf16:
        return make_onednn_product(dtype, DType::bf16);
      default:
        return make_onednn_product(dtype, DType::f32);
    }
  } catch (const std::exception& failure) {
    return error(StatusCode::internal, "oneDNN: {}", failure.what());
  }
}

}  // namespace tandem
