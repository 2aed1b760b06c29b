/* LoRA for many adapters in one batch, on CUDA GPUs, for programs in any language.
 *
 *   out[m][t] += x[t] A^T B^T     for every row t of a batch and up to three modules m
 *
 * with A [rank, in] and B [out, rank] of the row's own adapter, ranks 1 to 512 mixed freely, in one
 * kernel. Modules are linear layers that take the same x (q, k and v, say). There is no factor for
 * lora_alpha / rank: multiply B by it beforehand. libtandem_lora.so needs the CUDA runtime and
 * nothing else. It never allocates, waits or throws an exception, and needs no workspace; a
 * call enqueues one kernel on the given stream (or none, when there is nothing to do) and may be
 * captured in a CUDA graph: the launch depends only on the plain integers here, so the memory that
 * the pointers refer to may have other contents at a replay. Results are the same in every run.
 * Functions may be called from several threads at once.
 *
 * Zero a tandem_lora_args, set struct_size, and fill in x, the modules, the weights in one of their
 * two forms (dense arrays, or a table) and the rows in one of theirs (an adapter per row, or
 * segments); the other form stays zero. All pointers in the structs are device memory, which the
 * GPU reads when the kernel runs: it must not change until then. So nothing behind a pointer is
 * checked: a row, adapter or page number out of range, or a rank or count above its bound, makes
 * the kernel read or write foreign memory. x, weights and out must not overlap.
 *
 * Strides count elements and may exceed the width. bf16 and f16 run on tensor cores when `in`, the
 * strides of x and out, the widths of out and the rank of dense weights are multiples of 8, and x,
 * out and dense weights begin at multiples of 16 bytes; f32 and everything else is computed, but
 * slowly.
 *
 * tests/gpu/cuda/lora_c_test.py calls all of this from Python.
 */
#ifndef TANDEM_LORA_C_H
#define TANDEM_LORA_C_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TANDEM_LORA_MAX_MODULES 3
#define TANDEM_LORA_MAX_RANK 512
#define TANDEM_LORA_MAX_ROWS 65535

enum { TANDEM_LORA_F32 = 0, TANDEM_LORA_F16 = 1, TANDEM_LORA_BF16 = 2 };

/* The results of tandem_lora(): 0, one of these, or a cudaError_t (which is above 0). */
enum {
  TANDEM_LORA_OK = 0,
  TANDEM_LORA_BAD_SIZE = -1,    /* struct_size is not that of this header */
  TANDEM_LORA_BAD_TYPE = -2,    /* an unknown type, or out_type neither the type nor f32 */
  TANDEM_LORA_BAD_SHAPE = -3,   /* a negative number, no width, or too many modules or rows */
  TANDEM_LORA_BAD_RANK = -4,    /* max_rank or dense_rank outside 0 .. 512 */
  TANDEM_LORA_BAD_POINTER = -5, /* a required pointer is null */
  TANDEM_LORA_BAD_PAGES = -6    /* page_shift outside 12 .. 30 */
};

/* One module of one adapter: A [rank, in], contiguous rows, and B [out_width, b_stride], whose
 * columns after `rank` are zeros. For f16 and bf16 b_stride is a multiple of 8, and a and b
 * (with pages: page_base) are multiples of 16 bytes; this is not checked. rank 0: the adapter does
 * not adapt the module, and nothing else is read. */
typedef struct tandem_lora_matrix {
  uint64_t a; /* address of A, or its first byte within the adapter when there are pages */
  uint64_t b;
  int32_t rank;
  int32_t b_stride;
} tandem_lora_matrix;

/* rows[first .. first + count) use adapter `adapter`. count 0: padding, nothing else is read. */
typedef struct tandem_lora_segment {
  int32_t adapter;
  int32_t first;
  int32_t count;
} tandem_lora_segment;

typedef struct tandem_lora_module {
  void* out;          /* [rows of x, out_width], added to */
  int64_t out_stride; /* from row to row */
  int32_t out_width;
  int32_t reserved; /* 0 */
  /* Dense weights, used when `table` is null: [adapters, dense_rank, in] and
   * [adapters, out_width, dense_rank]. */
  const void* a;
  const void* b;
} tandem_lora_module;

typedef struct tandem_lora_args {
  uint64_t struct_size; /* sizeof(tandem_lora_args) */

  const void* x;    /* [rows of x, in] */
  int64_t x_stride; /* from row to row */
  int32_t in;
  int32_t type;     /* of x and of the weights */
  int32_t out_type; /* `type` or f32 */
  int32_t num_modules;
  tandem_lora_module module[TANDEM_LORA_MAX_MODULES];

  /* Weights by table: adapter i's module m is table[i * table_stride + m]. */
  const tandem_lora_matrix* table;
  int64_t table_stride;
  /* Adapters in pages: byte n of adapter i lies at page_base
   * + (page_ids[i * page_ids_stride + (n >> page_shift)] << page_shift) + (n mod 2^page_shift).
   * An adapter's matrices begin at bytes n that are multiples of 64. page_base null: the table
   * holds addresses. */
  const void* page_base;
  const int32_t* page_ids;
  int64_t page_ids_stride;
  int32_t page_shift;

  /* Dense weights: the rank of the arrays and, if not null, how much of it each adapter uses
   * (0: none). The columns of B after that must be finite, the rows of A are not read. */
  int32_t dense_rank;
  const int32_t* ranks; /* [adapters] */

  /* The rows' adapters, given in one of two ways. By row: adapter_of_row[i] is the adapter of
   * row i of x, -1 for none. By segments: `rows` lists rows of x in any order, or is null for 0, 1,
   * 2, ...; each is in at most one segment, and those in none are not changed. Segments are the
   * faster way when rows share adapters. */
  const int32_t* adapter_of_row;       /* [num_rows]; null: segments */
  const tandem_lora_segment* segments; /* [num_segments] */
  const int32_t* rows;                 /* [num_rows] */
  int32_t num_segments;
  int32_t num_rows; /* 0: nothing is enqueued */

  int32_t max_rank;  /* of any adapter in the batch, or a bound; unused for dense weights */
  int32_t max_count; /* of any segment, or a bound; unused by row. 0: nothing is enqueued */
} tandem_lora_args;

/* `stream` is a cudaStream_t; null: the default stream. Runs on the thread's current device. */
int tandem_lora(const tandem_lora_args* args, void* stream);

/* A sentence that explains a result of tandem_lora(); never null, never freed. */
const char* tandem_lora_error(int status);

#ifdef __cplusplus
}
#endif

#endif
