#include "engine/loader/quantised/packed_matrix.h"

namespace tandem {

std::span<const std::byte> PackedMatrix::bytes_of_rows(std::span<const std::byte> tensor,
                                                       std::int64_t first,
                                                       std::int64_t count) const {
  const auto rows = static_cast<std::size_t>(rows_);
  if (!is_by_row() || tensor.size() % rows != 0) return tensor;
  const std::size_t row_bytes = tensor.size() / rows;
  return tensor.subspan(static_cast<std::size_t>(first) * row_bytes,
                        static_cast<std::size_t>(count) * row_bytes);
}

PackedResult open_packed(const ModuleScheme& scheme, const ModuleTensors& tensors) {
  switch (scheme.packing) {
    case Packing::words:
      return open_words(scheme, tensors);
    case Packing::int8:
      return open_int8(scheme, tensors);
    case Packing::fp8:
      return open_fp8(scheme, tensors);
    case Packing::gptq:
      return open_gptq(scheme, tensors);
    case Packing::awq:
      return open_awq(scheme, tensors);
    case Packing::bnb_4bit:
      return open_bnb_4bit(scheme, tensors);
    case Packing::bnb_int8:
      return open_bnb_int8(scheme, tensors);
    case Packing::mxfp4:
      return open_mxfp4(scheme, tensors);
  }
  return invalid("unknown packing");
}

}  // namespace tandem
