// The C interface to the kernels: checks what can be checked on the host, and enqueues.
#include "gpu/cuda/lora_c/lora_c.h"

#include <cstddef>

#include "gpu/cuda/lora/kernels/plan.h"

namespace {

using namespace tandem::cuda;

static_assert(sizeof(tandem_lora_matrix) == sizeof(LoraEntry) &&
              offsetof(tandem_lora_matrix, rank) == offsetof(LoraEntry, rank));
static_assert(sizeof(tandem_lora_segment) == sizeof(LoraRows) &&
              offsetof(tandem_lora_segment, count) == offsetof(LoraRows, count));
static_assert(TANDEM_LORA_MAX_MODULES == LoraParams::kMaxModules);

int check(const tandem_lora_args& args) {
  if (args.type < TANDEM_LORA_F32 || args.type > TANDEM_LORA_BF16) return TANDEM_LORA_BAD_TYPE;
  if (args.out_type != args.type && args.out_type != TANDEM_LORA_F32) return TANDEM_LORA_BAD_TYPE;
  if (args.in < 1 || args.num_modules < 1 || args.num_modules > TANDEM_LORA_MAX_MODULES ||
      args.num_rows < 0 || args.num_rows > TANDEM_LORA_MAX_ROWS || args.num_segments < 0 ||
      args.max_count < 0) {
    return TANDEM_LORA_BAD_SHAPE;
  }
  const int rank = args.table != nullptr ? args.max_rank : args.dense_rank;
  if (rank < 0 || rank > TANDEM_LORA_MAX_RANK) return TANDEM_LORA_BAD_RANK;
  if (args.num_rows == 0) return TANDEM_LORA_OK;
  if (args.x == nullptr) return TANDEM_LORA_BAD_POINTER;
  if (args.adapter_of_row == nullptr && args.num_segments > 0 && args.segments == nullptr) {
    return TANDEM_LORA_BAD_POINTER;
  }
  if (args.page_base != nullptr) {
    if (args.page_ids == nullptr || args.table == nullptr) return TANDEM_LORA_BAD_POINTER;
    if (args.page_shift < 12 || args.page_shift > 30) return TANDEM_LORA_BAD_PAGES;
  }
  for (int m = 0; m < args.num_modules; ++m) {
    const tandem_lora_module& module = args.module[m];
    if (module.out_width < 1) return TANDEM_LORA_BAD_SHAPE;
    if (module.out == nullptr) return TANDEM_LORA_BAD_POINTER;
    if (args.table == nullptr && (module.a == nullptr || module.b == nullptr)) {
      return TANDEM_LORA_BAD_POINTER;
    }
  }
  return TANDEM_LORA_OK;
}

bool aligned16(const void* p) {
  return reinterpret_cast<std::uintptr_t>(p) % 16 == 0;
}

}  // namespace

extern "C" int tandem_lora(const tandem_lora_args* args, void* stream) {
  if (args == nullptr) return TANDEM_LORA_BAD_POINTER;
  if (args->struct_size != sizeof(tandem_lora_args)) return TANDEM_LORA_BAD_SIZE;
  if (const int status = check(*args); status != TANDEM_LORA_OK) return status;
  LoraParams p;
  p.x = args->x;
  p.x_stride = args->x_stride;
  p.in = args->in;
  p.num_modules = args->num_modules;
  p.type = static_cast<LoraType>(args->type);
  p.out_type = static_cast<LoraType>(args->out_type);
  p.table = reinterpret_cast<const LoraEntry*>(args->table);
  p.slot_stride = args->table_stride;
  p.page_base = static_cast<const std::byte*>(args->page_base);
  p.page_ids = args->page_ids;
  p.page_slot_stride = args->page_ids_stride;
  p.page_shift = args->page_shift;
  p.ranks = args->ranks;
  p.dense_rank = args->dense_rank;
  p.weights_aligned = args->table != nullptr || args->dense_rank % 8 == 0;
  const std::int64_t size = p.type == LoraType::f32 ? 4 : 2;
  for (int m = 0; m < args->num_modules; ++m) {
    const tandem_lora_module& module = args->module[m];
    p.out[m] = {module.out, module.out_stride, module.out_width};
    p.dense[m] = {static_cast<const std::byte*>(module.a), static_cast<const std::byte*>(module.b),
                  size * args->dense_rank * args->in, size * args->dense_rank * module.out_width};
    p.weights_aligned = p.weights_aligned &&
                        (args->table != nullptr || (aligned16(module.a) && aligned16(module.b)));
  }
  p.rows = args->rows;
  p.num_rows = args->num_rows;
  p.max_rank = args->table != nullptr ? args->max_rank : args->dense_rank;
  if (args->adapter_of_row != nullptr) {
    p.row_slots = args->adapter_of_row;
    p.rows = nullptr;
    p.max_count = 1;
  } else {
    p.segments = reinterpret_cast<const LoraRows*>(args->segments);
    p.num_segments = args->num_segments;
    p.max_count = args->max_count;
    if (args->num_segments == 0) return TANDEM_LORA_OK;
  }
  // The caller's kernels may write any operand, so this kernel starts after they have ended.
  return enqueue_lora(p, LoraKernel::automatic, false, static_cast<cudaStream_t>(stream));
}

extern "C" const char* tandem_lora_error(int status) {
  switch (status) {
    case TANDEM_LORA_OK:
      return "no error";
    case TANDEM_LORA_BAD_SIZE:
      return "struct_size is not sizeof(tandem_lora_args) of this library";
    case TANDEM_LORA_BAD_TYPE:
      return "type must be f32, f16 or bf16, and out_type the same or f32";
    case TANDEM_LORA_BAD_SHAPE:
      return "a width is below 1, a number below 0, num_modules outside 1 .. 3, or num_rows above "
             "65535";
    case TANDEM_LORA_BAD_RANK:
      return "max_rank or dense_rank is outside 0 .. 512";
    case TANDEM_LORA_BAD_POINTER:
      return "a pointer that these arguments need is null";
    case TANDEM_LORA_BAD_PAGES:
      return "page_shift is outside 12 .. 30";
    default:
      return status > 0 ? cudaGetErrorString(static_cast<cudaError_t>(status)) : "unknown status";
  }
}
