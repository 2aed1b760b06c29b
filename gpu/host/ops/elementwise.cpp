// The row-by-row operations: embedding, norms, rotary embedding, SwiGLU, gather, KV append.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "gpu/host/kernels/kernels.h"
#include "gpu/host/kernels/packed.h"
#include "gpu/host/ops/lora_pages.h"
#include "gpu/host/ops/operations.h"
#include "gpu/host/ops/row_ranges.h"

namespace tandem::host {
namespace {

std::byte* element(const TensorView& view, std::int64_t i, std::int64_t j) {
  return static_cast<std::byte*>(view.data) +
         (i * view.stride[0] + j * view.stride[1]) * static_cast<std::int64_t>(size_of(view.dtype));
}

// The norm's weight of row t.
const float* weight_of(OpContext& context, const RmsNormArgs& args, std::int64_t t, int worker) {
  const OwnVectors& own = args.own;
  const std::int32_t slot = own.table == nullptr ? -1 : own.slots[t];
  const LoraMatrix* const matrix = slot < 0 ? nullptr : own.table + slot * own.slot_stride;
  if (matrix == nullptr || matrix->rank == 0) return static_cast<const float*>(args.weight.data);
  const std::int64_t bytes = args.x.cols() * std::int64_t{sizeof(float)};
  return reinterpret_cast<const float*>(
      weights_at(own.pages, slot, matrix->b, 0, bytes,
                 context.workers[static_cast<std::size_t>(worker)].operand));
}

}  // namespace

void embed(OpContext& context, const EmbedArgs& args) {
  const std::int64_t width = args.table.cols();
  for_row_ranges(
      context, args.out.rows(), bytes_of(args.out), [&](std::int64_t t, std::int64_t end) {
        for (; t < end; ++t) {
          const std::int64_t vocab = args.vocab > 0 ? args.vocab : args.table.rows();
          TANDEM_CHECK(args.ids[t] >= 0 && args.ids[t] < vocab, "token {} of {}", args.ids[t],
                       vocab);
          const std::int64_t id = args.ids[t] - args.first_id;
          if (id < 0 || id >= args.table.rows()) {
            std::memset(args.out.row_bytes(t), 0,
                        static_cast<std::size_t>(width) * size_of(args.out.dtype));
            continue;
          }
          if (args.table.is_dense()) {
            convert(args.table.data.dtype, args.table.data.row_bytes(id), args.out.dtype,
                    args.out.row_bytes(t), static_cast<std::size_t>(width));
          } else {
            unpack_rows(args.table, id, 1, args.out.dtype, args.out.row_bytes(t), width);
          }
          if (args.scale != 1) {
            scale_row(reinterpret_cast<float*>(args.out.row_bytes(t)), width, args.scale);
          }
        }
      });
}

void rms_norm(OpContext& context, const RmsNormArgs& args) {
  const bool per_head = args.x.rank == 3;
  const std::int64_t heads = per_head ? args.x.dim[1] : 1;
  for_row_ranges(
      context, args.x.rows(), bytes_of(args.x) + bytes_of(args.out),
      [&](std::int64_t t, std::int64_t end, int worker) {
        for (; t < end; ++t) {
          const float* const weight = weight_of(context, args, t, worker);
          for (std::int64_t h = 0; h < heads; ++h) {
            norm_row({args.x.dtype, per_head ? element(args.x, t, h) : args.x.row_bytes(t), weight,
                      args.x.cols(), args.eps, args.out.dtype,
                      per_head ? element(args.out, t, h) : args.out.row_bytes(t), args.centred,
                      args.squares.rank == 0
                          ? nullptr
                          : reinterpret_cast<const float*>(args.squares.row_bytes(t)),
                      args.width});
          }
        }
      });
}

void sum_squares(OpContext& context, const SumSquaresArgs& args) {
  for_row_ranges(context, args.x.rows(), bytes_of(args.x), [&](std::int64_t t, std::int64_t end) {
    for (; t < end; ++t) {
      *reinterpret_cast<float*>(args.out.row_bytes(t)) =
          row_squares(args.x.dtype, args.x.row_bytes(t), args.x.cols());
    }
  });
}

void add_norm(OpContext& context, const AddNormArgs& args) {
  const std::int64_t width = args.residual.cols();
  const auto weight_of = [](const TensorView& weight) {
    return weight.rank == 0 ? nullptr : static_cast<const float*>(weight.data);
  };
  for_row_ranges(context, args.residual.rows(), 4 * bytes_of(args.residual),
                 [&](std::int64_t t, std::int64_t end) {
                   for (; t < end; ++t) {
                     auto* const residual = reinterpret_cast<float*>(args.residual.row_bytes(t));
                     if (args.sum.rank != 0) {
                       add_row({reinterpret_cast<const float*>(args.sum.row_bytes(t)),
                                weight_of(args.sum_weight), width, args.eps, residual});
                       if (args.scale != 1) scale_row(residual, width, args.scale);
                     }
                     if (args.out.rank == 0) continue;
                     if (args.weight.rank == 0) {
                       convert(DType::f32, residual, args.out.dtype, args.out.row_bytes(t),
                               static_cast<std::size_t>(width));
                     } else {
                       norm_row({DType::f32, residual, weight_of(args.weight), width, args.eps,
                                 args.out.dtype, args.out.row_bytes(t)});
                     }
                   }
                 });
}

void rotary_angles(OpContext& context, const RotaryAnglesArgs& args) {
  const std::int64_t last = args.frequencies.rows() - 1;
  const std::int64_t pairs = args.out.cols();
  // A sine costs about as much as moving 64 bytes.
  for_row_ranges(context, args.out.rows(), 16 * bytes_of(args.out),
                 [&](std::int64_t t, std::int64_t end) {
                   for (; t < end; ++t) {
                     const std::int64_t choice =
                         std::clamp<std::int64_t>(args.lengths[t] - args.first_length, 0, last);
                     const auto* const frequencies =
                         reinterpret_cast<const float*>(args.frequencies.row_bytes(choice));
                     auto* const cosines = reinterpret_cast<float*>(element(args.out, t, 0));
                     for (std::int64_t i = 0; i < pairs; ++i) {
                       const float angle = static_cast<float>(args.positions[t]) * frequencies[i];
                       cosines[i] = args.scale * std::cos(angle);
                       cosines[pairs + i] = args.scale * std::sin(angle);
                     }
                   }
                 });
}

void rope_append(OpContext& context, const RopeAppendArgs& args) {
  const KvLayer& cache = args.cache;
  const std::int64_t kv_heads = args.k.rank == 0 ? 0 : args.k.dim[1];
  const std::int64_t d = args.q.cols();
  const auto size = static_cast<std::int64_t>(size_of(args.q.dtype));
  const auto bytes = 2 * (bytes_of(args.q) + (kv_heads == 0 ? 0 : 2 * bytes_of(args.k)));
  const auto rotate = [&](std::byte* x, std::int64_t position) {
    if (args.cos_sin.rank == 0) return;
    TANDEM_CHECK(position >= 0 && position < args.cos_sin.rows(), "position {} of {}", position,
                 args.cos_sin.rows());
    rope_row({args.q.dtype, x, args.cos_sin.cols(),
              reinterpret_cast<const float*>(element(args.cos_sin, position, 0)),
              reinterpret_cast<const float*>(element(args.cos_sin, position, 1)),
              args.interleaved});
  };
  for_row_ranges(context, args.q.rows(), bytes, [&](std::int64_t t, std::int64_t end) {
    for (; t < end; ++t) {
      const std::int64_t position = args.positions == nullptr ? t : args.positions[t];
      for (std::int64_t h = 0; h < args.q.dim[1]; ++h) {
        rotate(element(args.q, t, h), position);
        if (args.q_scale.rank == 0) continue;
        TANDEM_CHECK(position < args.q_scale.dim[0], "position {} of {}", position,
                     args.q_scale.dim[0]);
        scale_typed_row(args.q.dtype, element(args.q, t, h), d,
                        static_cast<const float*>(args.q_scale.data)[position]);
      }
      if (kv_heads == 0 || args.slots[t] < 0) continue;
      const std::int64_t page = args.slots[t] / cache.page_tokens;
      const std::int64_t offset = args.slots[t] % cache.page_tokens;
      for (std::int64_t h = 0; h < kv_heads; ++h) {
        const std::int64_t key = page * cache.page_stride + (h * cache.page_tokens + offset) * d;
        const std::int64_t value = key + kv_heads * cache.page_tokens * d;
        auto* base = static_cast<std::byte*>(cache.base);
        std::memcpy(base + key * size, element(args.k, t, h), static_cast<std::size_t>(d * size));
        rotate(base + key * size, position);
        std::memcpy(base + value * size, element(args.v, t, h), static_cast<std::size_t>(d * size));
      }
    }
  });
}

void swiglu(OpContext& context, const SwigluArgs& args) {
  const std::int64_t ffn = args.out.cols();
  // Rows are split too, because a decode step has few rows, and they are long.
  constexpr std::int64_t kBlock = 2048;
  const std::int64_t blocks = ceil_div(ffn, kBlock);
  const auto in_size = static_cast<std::int64_t>(size_of(args.gate_up.dtype));
  const auto out_size = static_cast<std::int64_t>(size_of(args.out.dtype));
  // An exponential costs about as much as moving 16 bytes.
  context.for_each(
      args.out.rows() * blocks, args.out.num_elements() * 16, [&](std::int64_t task, int) {
        const std::int64_t t = task / blocks;
        const std::int64_t begin = task % blocks * kBlock;
        const std::byte* gate = args.gate_up.row_bytes(t) + begin * in_size;
        const std::byte* up =
            args.up.rank == 0 ? gate + ffn * in_size : args.up.row_bytes(t) + begin * in_size;
        gate_row({args.activation, args.gate_up.dtype, gate, up, std::min(kBlock, ffn - begin),
                  args.out.dtype, args.out.row_bytes(t) + begin * out_size});
      });
}

void scale_logits(OpContext& context, const ScaleLogitsArgs& args) {
  const std::int64_t width = args.logits.cols();
  for_row_ranges(context, args.logits.rows(), 8 * bytes_of(args.logits),
                 [&](std::int64_t t, std::int64_t end) {
                   for (; t < end; ++t) {
                     auto* const row = reinterpret_cast<float*>(args.logits.row_bytes(t));
                     if (args.multiplier != 1) scale_row(row, width, args.multiplier);
                     if (args.softcap != 0) cap_row(row, width, args.softcap);
                   }
                 });
}

void gather_rows(OpContext& context, const GatherRowsArgs& args) {
  const auto row_bytes = static_cast<std::size_t>(args.out.cols()) * size_of(args.out.dtype);
  for_row_ranges(
      context, args.out.rows(), 2 * bytes_of(args.out), [&](std::int64_t i, std::int64_t end) {
        for (; i < end; ++i) {
          const std::int32_t row = args.rows[i];
          TANDEM_CHECK(row >= 0 && row < args.x.rows(), "row {} of {}", row, args.x.rows());
          std::memcpy(args.out.row_bytes(i), args.x.row_bytes(row), row_bytes);
        }
      });
}

}  // namespace tandem::host
