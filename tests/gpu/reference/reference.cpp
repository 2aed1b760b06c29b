#include "tests/gpu/reference/reference.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <numeric>
#include <set>
#include <vector>

#include "base/check.h"
#include "base/lora_rows.h"
#include "tests/gpu/reference/packed_twin.h"

namespace tandem::reference {
namespace {

void* address(const TensorView& view, std::int64_t i, std::int64_t j, std::int64_t k) {
  const std::int64_t index[3] = {i, j, k};
  std::int64_t offset = 0;
  for (int n = 0; n < view.rank; ++n) offset += index[n] * view.stride[n];
  return static_cast<std::byte*>(view.data) +
         offset * static_cast<std::int64_t>(size_of(view.dtype));
}

// The byte at `byte`, an address or an index (see LoraPages).
const std::byte* weight_byte(const LoraPages& pages, std::int32_t slot, std::uint64_t byte) {
  if (pages.base == nullptr) return reinterpret_cast<const std::byte*>(byte);
  const std::int32_t id =
      pages.ids[slot * pages.slot_stride + static_cast<std::int64_t>(byte >> pages.shift)];
  return pages.base + (static_cast<std::uint64_t>(id) << pages.shift) +
         (byte & ((std::uint64_t{1} << pages.shift) - 1));
}

// A matrix [rows, cols] that starts at `start`, as float.
std::vector<float> weights(const LoraPages& pages, DType dtype, std::int32_t slot,
                           std::uint64_t start, std::int64_t rows, std::int64_t cols,
                           std::int64_t row_stride) {
  const std::uint64_t size = size_of(dtype);
  std::vector<float> out(static_cast<std::size_t>(rows * cols));
  float* to = out.data();
  for (std::int64_t r = 0; r < rows; ++r) {
    std::uint64_t byte = start + static_cast<std::uint64_t>(r * row_stride) * size;
    for (std::uint64_t left = static_cast<std::uint64_t>(cols) * size; left > 0;) {
      const std::byte* const from = weight_byte(pages, slot, byte);
      std::uint64_t bytes = left;  // up to the end of the page
      if (pages.base != nullptr) {
        const std::uint64_t page = std::uint64_t{1} << pages.shift;
        bytes = std::min(left, page - (byte & (page - 1)));
      }
      TANDEM_CHECK(bytes % size == 0, "an element lies across two pages");
      convert(dtype, from, DType::f32, to, bytes / size);
      to += bytes / size;
      byte += bytes;
      left -= bytes;
    }
  }
  return out;
}

// K (0) or V (1) of a page: [kv_heads, page_tokens, d].
TensorView page_of(const KvLayer& cache, DType dtype, std::int64_t page, int which,
                   std::int64_t heads, std::int64_t d) {
  const std::int64_t offset = page * cache.page_stride + which * heads * cache.page_tokens * d;
  return {static_cast<std::byte*>(cache.base) + offset * static_cast<std::int64_t>(size_of(dtype)),
          dtype,
          {heads, cache.page_tokens, d}};
}

// The elements of the last dimension, which is dense.
std::vector<float> row_at(const TensorView& view, std::int64_t i, std::int64_t j = 0) {
  std::vector<float> row(static_cast<std::size_t>(view.cols()));
  convert(view.dtype, address(view, i, view.rank > 2 ? j : 0, 0), DType::f32, row.data(),
          row.size());
  return row;
}

float dot(const std::vector<float>& a, const std::vector<float>& b) {
  float sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace

float at(const TensorView& view, std::int64_t i, std::int64_t j, std::int64_t k) {
  float value = 0;
  convert(view.dtype, address(view, i, j, k), DType::f32, &value, 1);
  return value;
}

void put(const TensorView& view, float value, std::int64_t i, std::int64_t j, std::int64_t k) {
  convert(DType::f32, &value, view.dtype, address(view, i, j, k), 1);
}

void embed(const EmbedArgs& args) {
  for (std::int64_t t = 0; t < args.out.rows(); ++t) {
    const std::int64_t row = args.ids[t] - args.first_id;
    const bool is_here = row >= 0 && row < args.table.rows();
    const std::vector<float> values = is_here ? row_of(args.table, row) : std::vector<float>();
    for (std::int64_t i = 0; i < args.out.cols(); ++i) {
      put(args.out, is_here ? values[static_cast<std::size_t>(i)] * args.scale : 0.0F, t, i);
    }
  }
}

void rms_norm(const RmsNormArgs& args) {
  const std::int64_t heads = args.x.rank == 3 ? args.x.dim[1] : 1;
  const std::int64_t n = args.x.cols();
  for (std::int64_t t = 0; t < args.x.rows(); ++t) {
    for (std::int64_t h = 0; h < heads; ++h) {
      const auto i_of = [&](std::int64_t i) { return args.x.rank == 3 ? h : i; };
      float mean = 0;
      for (std::int64_t i = 0; i < n && args.centred; ++i) {
        mean += at(args.x, t, i_of(i), i) / static_cast<float>(n);
      }
      float squares = 0;
      for (std::int64_t i = 0; i < n; ++i) {
        squares += std::pow(at(args.x, t, i_of(i), i) - mean, 2.0F);
      }
      const bool is_part = args.squares.rank != 0;
      if (is_part) squares = at(args.squares, t, 0);
      const auto width = static_cast<float>(is_part ? args.width : n);
      const float factor = 1.0F / std::sqrt(squares / width + args.eps);
      for (std::int64_t i = 0; i < n; ++i) {
        const float x = at(args.x, t, i_of(i), i) - mean;
        const float weight = args.weight.rank == 0 ? 1.0F : at(args.weight, i);
        put(args.out, x * factor * weight, t, i_of(i), i);
      }
    }
  }
}

void sum_squares(const SumSquaresArgs& args) {
  for (std::int64_t t = 0; t < args.x.rows(); ++t) {
    float squares = 0;
    for (const float value : row_at(args.x, t)) squares += value * value;
    put(args.out, squares, t, 0);
  }
}

void add_norm(const AddNormArgs& args) {
  const auto width = static_cast<float>(args.residual.cols());
  const auto factor_of = [&](const TensorView& x, std::int64_t t) {
    float squares = 0;
    for (const float value : row_at(x, t)) squares += value * value;
    return 1.0F / std::sqrt(squares / width + args.eps);
  };
  for (std::int64_t t = 0; t < args.residual.rows(); ++t) {
    if (args.sum.rank != 0) {
      const bool norms = args.sum_weight.rank != 0;
      const float factor = norms ? factor_of(args.sum, t) : 1.0F;
      for (std::int64_t i = 0; i < args.residual.cols(); ++i) {
        const float weight = norms ? at(args.sum_weight, i) : 1.0F;
        const float sum = at(args.residual, t, i) + at(args.sum, t, i) * factor * weight;
        put(args.residual, args.scale * sum, t, i);
      }
    }
    if (args.out.rank == 0) continue;
    const bool norms = args.weight.rank != 0;
    const float factor = norms ? factor_of(args.residual, t) : 1.0F;
    for (std::int64_t i = 0; i < args.residual.cols(); ++i) {
      put(args.out, at(args.residual, t, i) * factor * (norms ? at(args.weight, i) : 1.0F), t, i);
    }
  }
}

void gemm(const GemmArgs& args) {
  std::vector<std::vector<float>> x;
  for (std::int64_t t = 0; t < args.x.rows(); ++t) x.push_back(row_at(args.x, t));
  for (std::int64_t o = 0; o < args.w.rows(); ++o) {
    const std::vector<float> w = row_of(args.w, o);
    for (std::int64_t t = 0; t < args.x.rows(); ++t) {
      float sum = dot(x[static_cast<std::size_t>(t)], w);
      if (args.bias.rank > 0) sum += at(args.bias, o);
      if (args.accumulate) sum += at(args.y, t, o);
      put(args.y, sum, t, o);
    }
  }
}

void resolve_tokens(const ResolveTokensArgs& args) {
  for (std::int32_t i = 0; i < args.count; ++i) {
    if (args.values[i] < 0) args.values[i] = args.previous[-1 - args.values[i]].token;
  }
}

void rotary_angles(const RotaryAnglesArgs& args) {
  for (std::int64_t t = 0; t < args.out.rows(); ++t) {
    const std::int64_t choice = std::clamp<std::int64_t>(args.lengths[t] - args.first_length, 0,
                                                         args.frequencies.rows() - 1);
    for (std::int64_t i = 0; i < args.out.cols(); ++i) {
      const double angle = static_cast<float>(args.positions[t]) * at(args.frequencies, choice, i);
      put(args.out, args.scale * static_cast<float>(std::cos(angle)), t, 0, i);
      put(args.out, args.scale * static_cast<float>(std::sin(angle)), t, 1, i);
    }
  }
}

void rope_append(const RopeAppendArgs& args) {
  const std::int64_t heads = args.k.rank == 0 ? 0 : args.k.dim[1];
  const std::int64_t d = args.q.cols();
  for (std::int64_t t = 0; t < args.q.rows(); ++t) {
    // to(value, i): the place of one of the two rotated values of a pair.
    const std::int64_t pairs = args.cos_sin.rank == 0 ? 0 : args.cos_sin.cols();
    const auto rotate = [&](const TensorView& x, std::int64_t h, auto&& to) {
      for (std::int64_t i = 0; i < pairs; ++i) {
        const std::int64_t first = args.interleaved ? 2 * i : i;
        const std::int64_t second = args.interleaved ? 2 * i + 1 : i + pairs;
        const std::int64_t position = args.positions == nullptr ? t : args.positions[t];
        const float cos = at(args.cos_sin, position, 0, i);
        const float sin = at(args.cos_sin, position, 1, i);
        const float a = at(x, t, h, first);
        const float b = at(x, t, h, second);
        to(a * cos - b * sin, first);
        to(b * cos + a * sin, second);
      }
      for (std::int64_t i = 2 * pairs; i < d; ++i) to(at(x, t, h, i), i);
    };
    for (std::int64_t h = 0; h < args.q.dim[1]; ++h) {
      const float scale = args.q_scale.rank == 0 ? 1.0F : at(args.q_scale, args.positions[t]);
      rotate(args.q, h, [&](float value, std::int64_t i) { put(args.q, scale * value, t, h, i); });
    }
    if (heads == 0 || args.slots[t] < 0) continue;
    const std::int64_t page = args.slots[t] / args.cache.page_tokens;
    const std::int64_t offset = args.slots[t] % args.cache.page_tokens;
    const TensorView keys = page_of(args.cache, args.k.dtype, page, 0, heads, d);
    const TensorView values = page_of(args.cache, args.k.dtype, page, 1, heads, d);
    for (std::int64_t h = 0; h < heads; ++h) {
      rotate(args.k, h, [&](float value, std::int64_t i) { put(keys, value, h, offset, i); });
      for (std::int64_t i = 0; i < d; ++i) put(values, at(args.v, t, h, i), h, offset, i);
    }
  }
}

void attention(const AttentionArgs& args) {
  const std::int64_t heads = args.q.dim[1];
  const std::int64_t d = args.q.cols();
  const std::int64_t group = heads / args.kv_heads;
  const std::int64_t page_tokens = args.cache.page_tokens;
  for (std::int32_t s = 0; s < args.num_sequences; ++s) {
    const AttentionSequence& sequence = args.sequences[s];
    // K (0) or V (1) of one key, for query head h.
    const auto row_of_key = [&](std::int64_t key, int which, std::int64_t h) {
      const std::int32_t page = args.page_ids[sequence.pages + key / page_tokens];
      return row_at(page_of(args.cache, args.q.dtype, page, which, args.kv_heads, d), h / group,
                    key % page_tokens);
    };
    for (std::int64_t n = 0; n < sequence.num_rows; ++n) {
      const std::int64_t t = sequence.first_row + n;
      const std::int64_t keys = sequence.kv_len - sequence.num_rows + n + 1;
      if (keys <= 0) continue;  // padding
      for (std::int64_t h = 0; h < heads; ++h) {
        const std::vector<float> q = row_at(args.q, t, h);
        std::vector<float> weights(static_cast<std::size_t>(keys));
        for (std::int64_t key = 0; key < keys; ++key) {
          float score = dot(q, row_of_key(key, 0, h)) * args.scale;
          if (args.softcap > 0) score = args.softcap * std::tanh(score / args.softcap);
          if (args.window > 0 && keys - 1 - key >= args.window) score = -INFINITY;
          weights[static_cast<std::size_t>(key)] = score;
        }
        float max = *std::max_element(weights.begin(), weights.end());
        if (args.sinks.rank != 0) max = std::max(max, at(args.sinks, h));
        float sum = args.sinks.rank != 0 ? std::exp(at(args.sinks, h) - max) : 0;
        for (float& weight : weights) sum += weight = std::exp(weight - max);
        std::vector<float> mixed(static_cast<std::size_t>(d));
        for (std::int64_t key = 0; key < keys; ++key) {
          const std::vector<float> v = row_of_key(key, 1, h);
          const float weight = weights[static_cast<std::size_t>(key)];
          for (std::size_t i = 0; i < v.size(); ++i) mixed[i] += weight * v[i];
        }
        for (std::int64_t i = 0; i < d; ++i) {
          put(args.out, mixed[static_cast<std::size_t>(i)] / sum, t, h, i);
        }
      }
    }
  }
}

void swiglu(const SwigluArgs& args) {
  const std::int64_t ffn = args.out.cols();
  for (std::int64_t t = 0; t < args.out.rows(); ++t) {
    for (std::int64_t i = 0; i < ffn; ++i) {
      const float gate = at(args.gate_up, t, i);
      float activated = gate / (1 + std::exp(-gate));
      if (args.activation == Activation::gelu_tanh) {
        const double x = gate;
        const double inner = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
        activated = static_cast<float>(0.5 * x * (1 + std::tanh(inner)));
      }
      const float up = args.up.rank == 0 ? at(args.gate_up, t, ffn + i) : at(args.up, t, i);
      put(args.out, activated * up, t, i);
    }
  }
}

void scale_logits(const ScaleLogitsArgs& args) {
  for (std::int64_t t = 0; t < args.logits.rows(); ++t) {
    for (std::int64_t i = 0; i < args.logits.cols(); ++i) {
      const float logit = at(args.logits, t, i) * args.multiplier;
      const float cap = args.softcap;
      put(args.logits, cap == 0 ? logit : cap * std::tanh(logit / cap), t, i);
    }
  }
}

void gather_rows(const GatherRowsArgs& args) {
  for (std::int64_t i = 0; i < args.out.rows(); ++i) {
    for (std::int64_t j = 0; j < args.out.cols(); ++j) {
      put(args.out, at(args.x, args.rows[i], j), i, j);
    }
  }
}

// The row of x, which is a scaled unit vector with ids.
std::vector<float> lora_input(const LoraArgs& args, std::int64_t t) {
  if (args.ids == nullptr) return row_at(args.x, t);
  std::vector<float> x(static_cast<std::size_t>(args.x.cols()), 0.0F);
  x[static_cast<std::size_t>(args.ids[t])] = args.id_scale;
  return x;
}

void replace(const LoraArgs& args) {
  const TensorView& out = args.out[0];
  for (std::int32_t s = 0; s < args.num_segments; ++s) {
    const LoraSegment& segment = args.segments[s];
    if (segment.count == 0) continue;
    const LoraMatrix& matrix = args.table[segment.slot * args.slot_stride];
    if (matrix.rank == 0) continue;
    const std::int64_t rows = args.ids == nullptr ? out.cols() : args.x.cols();
    const auto b = weights(args.pages, args.x.dtype, segment.slot, matrix.b, rows, matrix.rank,
                           matrix.b_stride);
    for (std::int32_t n = 0; n < segment.count; ++n) {
      const std::int64_t t = args.rows[segment.first + n];
      if (args.ids != nullptr && args.ids[t] >= args.x.cols()) continue;
      const std::vector<float> x = lora_input(args, t);
      for (std::int64_t o = 0; o < out.cols(); ++o) {
        float sum = 0;
        for (std::size_t i = 0; i < x.size(); ++i) {
          const std::size_t at = args.ids == nullptr ? static_cast<std::size_t>(o * matrix.rank) + i
                                                     : i * static_cast<std::size_t>(matrix.rank) +
                                                           static_cast<std::size_t>(o);
          sum += x[i] * b[at];
        }
        put(out, sum, t, o);
      }
    }
  }
}

// Puts A's rows, or their products with x, in the places of the tokens that B names.
void replace_tokens(const LoraArgs& args) {
  const TensorView& out = args.out[0];
  const std::int64_t in = args.ids == nullptr ? args.x.cols() : out.cols();
  for (std::int32_t s = 0; s < args.num_segments; ++s) {
    const LoraSegment& segment = args.segments[s];
    if (segment.count == 0) continue;
    const LoraMatrix& matrix = args.table[segment.slot * args.slot_stride];
    const auto a = weights(args.pages, args.x.dtype, segment.slot, matrix.a, matrix.rank, in, in);
    for (std::int32_t j = 0; j < matrix.rank; ++j) {
      const auto first = static_cast<std::uint64_t>(j) * sizeof(std::int32_t);
      std::int32_t id = 0;
      std::memcpy(&id, weight_byte(args.pages, segment.slot, matrix.b + first), sizeof(id));
      for (std::int32_t n = 0; n < segment.count; ++n) {
        const std::int64_t t = args.rows[segment.first + n];
        float sum = 0;
        for (std::int64_t i = 0; i < in; ++i) {
          const float w = a[static_cast<std::size_t>(j * in + i)];
          if (args.ids == nullptr) {
            sum += at(args.x, t, i) * w;
          } else if (args.ids[t] == id) {
            put(out, args.id_scale * w, t, i);
          }
        }
        if (args.ids == nullptr) put(out, sum, t, id);
      }
    }
  }
}

void lora(const LoraArgs& args) {
  if (args.part == LoraPart::replace) return replace(args);
  if (args.part == LoraPart::tokens) return replace_tokens(args);
  const std::int64_t in = args.x.cols();
  const std::int64_t width = args.part == LoraPart::whole
                                 ? 0
                                 : args.v.cols() / args.num_modules /
                                       (args.part == LoraPart::shrink ? 1 : args.num_shares);
  for (std::int32_t s = 0; s < args.num_segments; ++s) {
    const LoraSegment& segment = args.segments[s];
    if (segment.count == 0) continue;
    for (std::int32_t m = 0; m < args.num_modules; ++m) {
      const LoraMatrix& matrix = args.table[segment.slot * args.slot_stride + m];
      if (matrix.rank == 0) continue;
      const std::int64_t outputs = args.out[m].cols();
      const std::int32_t each = lora_share(matrix.rank, args.num_shares);
      const std::int64_t inner = lora_inner(matrix.rank, matrix.b_stride, args.x.dtype);
      const auto a = weights(args.pages, args.x.dtype, segment.slot, matrix.a, matrix.rank, in, in);
      const auto b = weights(args.pages, args.x.dtype, segment.slot, matrix.b,
                             args.first_column + outputs, inner, matrix.b_stride);
      for (std::int32_t n = 0; n < segment.count; ++n) {
        const std::int64_t t = args.rows[segment.first + n];
        const std::vector<float> x =
            args.part == LoraPart::expand ? std::vector<float>() : lora_input(args, t);
        std::vector<float> v(static_cast<std::size_t>(inner), 0.0F);
        if (inner > matrix.rank && args.adds_bias) v.back() = 1;
        for (std::int32_t j = 0; j < matrix.rank; ++j) {
          float& sum = v[static_cast<std::size_t>(j)];
          if (args.part == LoraPart::expand) {
            sum = at(args.v, t, (j / each * args.num_modules + m) * width + j % each);
            continue;
          }
          for (std::int64_t i = 0; i < in; ++i) {
            sum += x[static_cast<std::size_t>(i)] * a[static_cast<std::size_t>(j * in + i)];
          }
          if (args.part == LoraPart::shrink && j / each == args.share) {
            put(args.v, sum, t, m * width + j % each);
          }
        }
        if (args.part == LoraPart::shrink) continue;
        for (std::int64_t o = 0; o < outputs; ++o) {
          float delta = 0;
          for (std::int64_t j = 0; j < inner; ++j) {
            delta += v[static_cast<std::size_t>(j)] *
                     b[static_cast<std::size_t>((args.first_column + o) * inner + j)];
          }
          put(args.out[m], at(args.out[m], t, o) + delta, t, o);
        }
      }
    }
  }
}

void offer(const OfferArgs& args) {
  const OfferDescriptor& descriptor = *args.descriptor;
  for (std::int32_t s = 0; s < args.num_segments; ++s) args.live[s] = args.segments[s];
  for (std::int32_t g = 0; g < args.num_groups; ++g) {
    const ColdGroup& group = args.groups[g];
    const LoraSegment& segment = args.segments[group.segment];
    const MailboxView& mailbox = args.mailboxes[group.mailbox];
    const bool cpu = (descriptor.cpu_groups >> g & 1) != 0;
    const bool xa = (descriptor.xa_groups >> g & 1) != 0;
    Ticket ticket = Ticket::gpu;
    if (cpu || xa) {
      const std::uint32_t* ready = args.ready + segment.slot * args.slot_stride;
      const bool a = ready[0] == group.generation;
      const bool b = ready[1] == group.generation;
      if (a && b) {
        ticket = Ticket::gpu;
      } else if (args.state->broken[group.mailbox] != 0) {
        ticket = Ticket::dropped;
      } else if (xa && b) {
        ticket = Ticket::cpu_xa;
      } else {
        ticket = cpu ? Ticket::cpu : Ticket::dropped;
      }
    }
    args.tickets[g] = static_cast<std::uint32_t>(ticket);
    if (ticket != Ticket::gpu) args.live[group.segment].count = 0;
    if (ticket == Ticket::cpu || ticket == Ticket::cpu_xa) {
      const std::int64_t in = args.x.cols();
      const TensorView area(mailbox.x, args.x.dtype,
                            {group.first_row + segment.count, mailbox.max_in});
      const TensorView rows(area.row_bytes(group.first_row), args.x.dtype, {segment.count, in});
      for (std::int32_t r = 0; r < segment.count; ++r) {
        for (std::int64_t i = 0; i < in; ++i) {
          put(rows, at(args.x, args.rows[segment.first + r], i), r, i);
        }
      }
    }
    mailbox.doorbells[g * mailbox.doorbell_stride] = doorbell_of(descriptor.sequence, ticket);
  }
}

void accept(const AcceptArgs& args) {
  const OfferDescriptor& descriptor = *args.descriptor;
  const HandoffState before = *args.state;
  for (std::int32_t g = 0; g < args.num_groups; ++g) {
    const ColdGroup& group = args.groups[g];
    const LoraSegment& segment = args.segments[group.segment];
    const MailboxView& mailbox = args.mailboxes[group.mailbox];
    const auto ticket = static_cast<Ticket>(args.tickets[g]);
    if (ticket == Ticket::dropped) args.timed_out[g] = 1;
    if (ticket != Ticket::cpu && ticket != Ticket::cpu_xa) continue;
    bool answered = before.broken[group.mailbox] == 0;
    for (int w = 0; w < 64; ++w) {  // worker slots
      if ((group.workers >> w & 1) == 0) continue;
      answered =
          answered && mailbox.done[w * mailbox.worker_slot_stride + g] == descriptor.sequence;
    }
    if (!answered) {
      args.timed_out[g] = 1;
      args.state->broken[group.mailbox] = 1;
      continue;
    }
    std::int64_t out_columns = 0;
    std::int64_t ranks = 0;
    const LoraMatrix* matrices = args.table + segment.slot * args.slot_stride;
    for (std::int32_t m = 0; m < args.num_modules; ++m) {
      out_columns += args.out[m].cols();
      if (ticket == Ticket::cpu_xa) ranks += matrices[m].rank;
    }
    std::int64_t column = 0;
    std::int64_t rank_column = 0;
    for (std::int32_t m = 0; m < args.num_modules; ++m) {
      const TensorView& out = args.out[m];
      const bool adapted = (descriptor.adapted[m] >> g & 1) != 0;
      const std::int32_t rank = ticket == Ticket::cpu_xa ? matrices[m].rank : 0;
      const std::int64_t inner = rank > 0 ? lora_inner(rank, matrices[m].b_stride, args.dtype) : 0;
      std::vector<float> b;
      if (rank > 0) {
        b = weights(args.pages, args.dtype, segment.slot, matrices[m].b, out.cols(), inner,
                    matrices[m].b_stride);
      }
      for (std::int32_t r = 0; adapted && r < segment.count; ++r) {
        const std::int32_t row = args.rows[segment.first + r];
        for (std::int64_t o = 0; o < out.cols(); ++o) {
          float delta = 0;
          if (ticket == Ticket::cpu) {
            const std::int64_t i = group.first_row * mailbox.max_out + r * out_columns + column + o;
            convert(args.dtype, mailbox.y + i * static_cast<std::int64_t>(size_of(args.dtype)),
                    DType::f32, &delta, 1);
          }
          for (std::int32_t j = 0; j < rank; ++j) {
            delta += mailbox.v[group.first_row * mailbox.v_row + r * ranks + rank_column + j] *
                     b[static_cast<std::size_t>(o * inner + j)];
          }
          if (inner > rank) delta += b[static_cast<std::size_t>(o * inner + inner - 1)];
          put(out, at(out, row, o) + delta, row, o);
        }
      }
      column += out.cols();
      rank_column += rank;
    }
  }
}

void probabilities(const float* logits, int vocab, const SampleRow& row,
                   const std::int32_t* history, const TokenBias* biases, double* out) {
  std::vector<double> x(logits, logits + vocab);
  for (int i = 0; i < row.num_biases; ++i)
    x[static_cast<std::size_t>(biases[row.bias + i].token)] += biases[row.bias + i].bias;
  const std::int32_t* begin = history + row.history;
  const std::set<std::int32_t> seen(begin, begin + row.history_len);
  for (const std::int32_t token : seen) {
    double& logit = x[static_cast<std::size_t>(token)];
    logit = logit > 0 ? logit / row.repetition_penalty : logit * row.repetition_penalty;
    const auto times = std::count(begin + row.prompt_len, begin + row.history_len, token);
    if (times > 0)
      logit -= row.presence_penalty + row.frequency_penalty * static_cast<double>(times);
  }
  std::vector<std::size_t> order(static_cast<std::size_t>(vocab));
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return x[a] > x[b]; });
  std::fill(out, out + vocab, 0.0);
  if (row.temperature == 0) {
    out[order[0]] = 1;
    return;
  }
  if (row.top_k > 0 && row.top_k < vocab) order.resize(static_cast<std::size_t>(row.top_k));
  const double best = x[order[0]];
  double total = 0;
  for (const std::size_t i : order) total += out[i] = std::exp((x[i] - best) / row.temperature);
  double before = 0;
  double kept = 0;
  for (const std::size_t i : order) {
    const bool inside = before < row.top_p * total && out[i] >= row.min_p;
    before += out[i];
    if (!inside) out[i] = 0;
    kept += out[i];
  }
  for (int i = 0; i < vocab; ++i) out[i] /= kept;
}

}  // namespace tandem::reference
