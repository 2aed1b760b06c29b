// The twins of LoRA and of the handoff to CPU workers.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "base/lora_rows.h"
#include "tests/gpu/reference/reference.h"

namespace tandem::reference {
namespace {

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

// The row of x, which is a scaled unit vector with ids.
std::vector<float> lora_input(const LoraArgs& args, std::int64_t t) {
  std::vector<float> x(static_cast<std::size_t>(args.x.cols()), 0.0F);
  if (args.ids != nullptr) {
    x[static_cast<std::size_t>(args.ids[t])] = args.id_scale;
    return x;
  }
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = at(args.x, t, static_cast<std::int64_t>(i));
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
          const std::size_t place =
              args.ids == nullptr
                  ? static_cast<std::size_t>(o * matrix.rank) + i
                  : i * static_cast<std::size_t>(matrix.rank) + static_cast<std::size_t>(o);
          sum += x[i] * b[place];
        }
        if (args.base_bias[0].rank != 0) sum += at(args.base_bias[0], o);
        put(out, sum, t, o);
      }
    }
  }
}

void replace_biases(const LoraArgs& args) {
  for (std::int32_t s = 0; s < args.num_segments; ++s) {
    const LoraSegment& segment = args.segments[s];
    for (std::int32_t m = 0; m < args.num_modules && segment.count > 0; ++m) {
      const LoraMatrix& matrix = args.table[segment.slot * args.slot_stride + m];
      if (matrix.rank == 0) continue;
      const TensorView& out = args.out[m];
      const auto own =
          weights(args.pages, DType::f32, segment.slot, matrix.b, 1, out.cols(), out.cols());
      for (std::int32_t n = 0; n < segment.count; ++n) {
        const std::int64_t t = args.rows[segment.first + n];
        for (std::int64_t o = 0; o < out.cols(); ++o) {
          const float base = args.base_bias[m].rank == 0 ? 0.0F : at(args.base_bias[m], o);
          put(out, at(out, t, o) + own[static_cast<std::size_t>(o)] - base, t, o);
        }
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

}  // namespace

void lora(const LoraArgs& args) {
  if (args.part == LoraPart::replace) return replace(args);
  if (args.part == LoraPart::tokens) return replace_tokens(args);
  if (args.part == LoraPart::biases) return replace_biases(args);
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

}  // namespace tandem::reference
