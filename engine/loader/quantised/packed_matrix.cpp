#include "engine/loader/quantised/packed_matrix.h"

namespace tandem {

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
