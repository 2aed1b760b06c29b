#include "cpu_lora/worker/delta.h"

#include <algorithm>
#include <utility>

#include "base/lora_rows.h"

namespace tandem {
namespace {

// Bytes of packed weights that are used at once and stay in the L2 cache beside x.
constexpr std::size_t kSlabBytes = std::size_t{512} << 10;

std::uint32_t rank_column(const GroupJob& job, std::uint32_t module) {
  std::uint32_t column = 0;
  for (std::uint32_t m = 0; m < module; ++m) column += job.modules[m].rank;
  return column;
}

// Elements of a row of B by which v is multiplied (base/lora_rows.h).
std::int64_t inner_of(const JobMatrix& matrix, DType dtype) {
  return lora_inner(matrix.rank, matrix.b_stride, dtype);
}

// Whether `count` rows of `stride` elements at byte `offset` lie in the arena.
bool fits(std::uint64_t offset, std::uint64_t count, std::uint64_t stride, std::uint64_t element,
          std::uint64_t arena_bytes) {
  if (offset > arena_bytes || offset % element != 0) return false;
  return count == 0 || stride <= (arena_bytes - offset) / element / count;
}

Status check_matrix(const JobMatrix& matrix, const GroupJob& job, const MailboxShape& shape,
                    std::size_t arena_bytes) {
  const std::uint64_t element = size_of(shape.dtype);
  if (matrix.rank > shape.max_rank || matrix.b_stride < matrix.rank) {
    return invalid("rank {} with rows of {} elements, at most rank {}", matrix.rank,
                   matrix.b_stride, shape.max_rank);
  }
  if (matrix.column > job.out || matrix.out > job.out - matrix.column) {
    return invalid("columns {} + {} of {}", matrix.column, matrix.out, job.out);
  }
  if (!fits(matrix.a, matrix.rank, job.in, element, arena_bytes) ||
      !fits(matrix.b, matrix.out, matrix.b_stride, element, arena_bytes)) {
    return invalid("weights at {} and {} leave the arena of {} bytes", matrix.a, matrix.b,
                   arena_bytes);
  }
  return {};
}

}  // namespace

Status check_group_job(const GroupJob& job, const MailboxShape& shape, std::size_t arena_bytes) {
  if (job.group >= static_cast<std::uint32_t>(kMaxColdGroups)) {
    return invalid("group {} of {}", job.group, kMaxColdGroups);
  }
  if (job.workers == 0 ||
      (shape.num_worker_slots < 64 && job.workers >> shape.num_worker_slots != 0)) {
    return invalid("workers {:#x} of {} worker slots", job.workers, shape.num_worker_slots);
  }
  if (job.rows > shape.max_rows || job.first_row > shape.max_rows - job.rows) {
    return invalid("rows {} + {} of {}", job.first_row, job.rows, shape.max_rows);
  }
  if (job.in > shape.max_in || job.out > shape.max_out ||
      job.num_modules > static_cast<std::uint32_t>(kMaxModulesOfJob)) {
    return invalid("{} modules of {} x {}, at most {} x {}", job.num_modules, job.in, job.out,
                   shape.max_in, shape.max_out);
  }
  if (job.in == 0 && job.num_modules > 0) return invalid("products of no columns");
  if (job.split != JobSplit::columns && job.split != JobSplit::tokens) {
    return invalid("split {}", static_cast<std::uint32_t>(job.split));
  }
  std::uint64_t ranks = 0;
  for (std::uint32_t m = 0; m < job.num_modules; ++m) {
    if (job.modules[m].rank == 0) continue;
    TANDEM_TRY(check_matrix(job.modules[m], job, shape, arena_bytes));
    ranks += job.modules[m].rank;
  }
  if (ranks != job.rank_columns) {
    return invalid("{} columns of v for ranks that add up to {}", job.rank_columns, ranks);
  }
  if (job.present_value != 0 && !fits(job.present, 1, 1, sizeof(std::uint32_t), arena_bytes)) {
    return invalid("the word at {} leaves the arena of {} bytes", job.present, arena_bytes);
  }
  return {};
}

DeltaPlaces places_of(const Mailbox& mailbox, const GroupJob& job) {
  return {mailbox.x_of(job.first_row), mailbox.v_of(job.first_row),
          static_cast<std::int64_t>(v_plane_of(job)), mailbox.y_of(job.first_row)};
}

Result<WorkerDelta> WorkerDelta::create(DType dtype, ProductKind kind) {
  TANDEM_ASSIGN(std::unique_ptr<Product> product, make_product(dtype, kind));
  return WorkerDelta(dtype, std::move(product));
}

Status WorkerDelta::warm_up() {
  constexpr std::int64_t kSize = 32;
  const std::vector<std::byte> zeros(kSize * kSize * sizeof(float));
  std::vector<float> sums(kSize * kSize);
  const WeightsView w{zeros.data(), kSize, kSize, kSize};
  std::byte* packed = slab_.get(product_->packed_bytes(kSize, kSize));
  for (std::int64_t row = 0; row < kSize; row += Product::kPackRows) product_->pack(w, row, packed);
  ProductArgs args;
  args.rows = args.n = args.k = args.x_stride = args.y_stride = kSize;
  args.x = zeros.data();
  args.x_dtype = dtype_;
  args.packed = packed;
  args.y = sums.data();
  return product_->run(args);
}

void WorkerDelta::assign(DeltaTask& task, const GroupJob& job, int worker_slot,
                         const JobTerms& terms, const std::byte* arena, std::size_t most_bytes) {
  task.job_ = job;
  task.share_ = share_of(job, worker_slot, terms);
  task.pieces_.clear();
  task.next_ = 0;
  task.bytes_ = 0;
  const auto element = static_cast<std::int64_t>(size_of(dtype_));
  const auto add = [&](std::uint64_t offset, std::int64_t elements, std::int64_t stride,
                       std::int64_t n, std::int64_t k) {
    task.pieces_.push_back({{arena + offset + elements * element, stride, n, k}, task.bytes_, 0});
    task.bytes_ += (product_->packed_bytes(n, k) + 63) / 64 * 64;
  };
  for (std::uint32_t i = 0; i < task.share_.num_shrinks; ++i) {
    const ShrinkPart& part = task.share_.shrinks[i];
    add(job.modules[part.module].a, std::int64_t{part.first_rank} * job.in + part.first_in, job.in,
        part.num_ranks, part.num_in);
  }
  for (std::uint32_t i = 0; i < task.share_.num_expands; ++i) {
    const ExpandPart& part = task.share_.expands[i];
    const JobMatrix& matrix = job.modules[part.module];
    add(matrix.b, std::int64_t{part.first_column} * matrix.b_stride, matrix.b_stride,
        part.num_columns, inner_of(matrix, dtype_));
  }
  task.keeps_ = task.bytes_ <= most_bytes;
  if (task.keeps_) task.packed_.get(task.bytes_);
}

// Packs the next rows of pieces before `end`.
bool WorkerDelta::pack_next(DeltaTask& task, std::size_t end) {
  if (!task.keeps_) return false;
  for (; task.next_ < end; ++task.next_) {
    DeltaTask::Piece& piece = task.pieces_[task.next_];
    if (piece.packed_rows >= piece.weights.n) continue;
    product_->pack(piece.weights, piece.packed_rows, task.packed_.get(0) + piece.offset);
    piece.packed_rows += Product::kPackRows;
    return true;
  }
  return false;
}

void WorkerDelta::pack_rest(DeltaTask& task) {
  while (pack_some(task)) {
  }
}

// Product of `args`, whose weights, n and k are the piece's; y advances with the slabs.
Status WorkerDelta::multiply(DeltaTask& task, std::size_t piece, ProductArgs args) {
  const WeightsView& w = task.pieces_[piece].weights;
  args.k = w.k;
  if (task.keeps_) {
    while (pack_next(task, piece + 1)) {
    }
    args.n = w.n;
    args.packed = task.packed_.get(0) + task.pieces_[piece].offset;
    return product_->run(args);
  }
  const std::size_t block_bytes = product_->packed_bytes(Product::kPackRows, w.k);
  const auto blocks = static_cast<std::int64_t>(std::max<std::size_t>(kSlabBytes / block_bytes, 1));
  for (std::int64_t first = 0; first < w.n; first += blocks * Product::kPackRows) {
    WeightsView slab = w;
    slab.data += first * w.stride * static_cast<std::int64_t>(size_of(dtype_));
    slab.n = std::min(blocks * Product::kPackRows, w.n - first);
    std::byte* packed = slab_.get(product_->packed_bytes(slab.n, w.k));
    for (std::int64_t row = 0; row < slab.n; row += Product::kPackRows) {
      product_->pack(slab, row, packed);
    }
    ProductArgs part = args;
    part.n = slab.n;
    part.packed = packed;
    part.y =
        static_cast<std::byte*>(args.y) + first * static_cast<std::int64_t>(size_of(args.y_dtype));
    TANDEM_TRY(product_->run(part));
  }
  return {};
}

Status WorkerDelta::shrink(DeltaTask& task, const DeltaPlaces& places) {
  const GroupJob& job = task.job_;
  const Share& share = task.share_;
  for (std::uint32_t i = 0; i < share.num_shrinks; ++i) {
    const ShrinkPart& part = share.shrinks[i];
    ProductArgs args;
    args.rows = share.num_rows;
    args.x = places.x + (std::uint64_t{share.first_row} * job.in + part.first_in) * size_of(dtype_);
    args.x_dtype = dtype_;
    args.x_stride = job.in;
    args.y = places.v + part.plane * places.v_plane +
             std::uint64_t{share.first_row} * job.rank_columns + rank_column(job, part.module) +
             part.first_rank;
    args.y_dtype = DType::f32;
    args.y_stride = job.rank_columns;
    TANDEM_TRY(multiply(task, i, args));
  }
  return {};
}

// Sums the module's rows of v into the product's input; zeros after its ranks.
void WorkerDelta::add_planes(const DeltaTask& task, const DeltaPlaces& places, std::uint32_t module,
                             std::byte* input, std::size_t row_bytes) {
  const Share& share = task.share_;
  const std::size_t element = size_of(product_->input_dtype());
  const JobMatrix& matrix = task.job_.modules[module];
  const std::size_t used = matrix.rank * element;
  const auto inner = static_cast<std::size_t>(inner_of(matrix, dtype_));
  const float* v = places.v + std::uint64_t{share.first_row} * task.job_.rank_columns +
                   rank_column(task.job_, module);
  for (std::uint32_t r = 0; r < share.num_rows; ++r) {
    for (const Stripe& stripe : share.stripes_of_all()) {
      if (stripe.module != module) continue;
      product_->add_planes(v + stripe.first_rank, places.v_plane,
                           static_cast<int>(stripe.num_planes), stripe.num_ranks,
                           input + stripe.first_rank * element);
    }
    std::fill(input + used, input + row_bytes, std::byte{0});
    if (inner > matrix.rank) {  // the bias
      constexpr float kOne = 1;
      convert(DType::f32, &kOne, product_->input_dtype(), input + (inner - 1) * element, 1);
    }
    v += task.job_.rank_columns;
    input += row_bytes;
  }
}

Status WorkerDelta::expand(DeltaTask& task, const DeltaPlaces& places) {
  const GroupJob& job = task.job_;
  const Share& share = task.share_;
  const DType input_dtype = product_->input_dtype();
  for (std::uint32_t i = 0; i < share.num_expands; ++i) {
    const ExpandPart& part = share.expands[i];
    const JobMatrix& matrix = job.modules[part.module];
    const std::int64_t stride = product_->input_stride(inner_of(matrix, dtype_));
    const auto row_bytes = static_cast<std::size_t>(stride) * size_of(input_dtype);
    std::byte* input = input_.get(share.num_rows * row_bytes);
    add_planes(task, places, part.module, input, row_bytes);
    ProductArgs args;
    args.rows = share.num_rows;
    args.x = input;
    args.x_dtype = input_dtype;
    args.x_stride = stride;
    args.y =
        places.y + (std::uint64_t{share.first_row} * job.out + matrix.column + part.first_column) *
                       size_of(dtype_);
    args.y_dtype = dtype_;
    args.y_stride = job.out;
    TANDEM_TRY(multiply(task, share.num_shrinks + i, args));
  }
  return {};
}

void WorkerDelta::reduce(const DeltaTask& task, const DeltaPlaces& places) const {
  const Share& share = task.share_;
  if (share.most_planes <= 1) return;
  const std::uint64_t width = task.job_.rank_columns;
  const std::uint64_t end = share.first_sum + share.num_sums;
  for (std::uint64_t row = share.first_sum / width; row * width < end; ++row) {
    std::uint64_t first = row * width;  // start of the stripe
    for (const Stripe& stripe : share.stripes_of_all()) {
      const std::uint64_t from = std::max(first, share.first_sum);
      const std::uint64_t to = std::min(first += stripe.num_ranks, end);
      for (std::uint32_t p = 1; p < stripe.num_planes; ++p) {
        const float* plane = places.v + p * places.v_plane;
        for (std::uint64_t i = from; i < to; ++i) places.v[i] += plane[i];
      }
    }
  }
}

}  // namespace tandem
