// Paged attention with an online softmax. A task is one KV head, a block of a sequence's rows and a
// span of its keys; the query heads of the group and the rows of the block share every key that is
// read. Decode rows with long contexts are cut into several spans, which a second pass merges.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/check.h"
#include "gpu/host/kernels/kernels.h"
#include "gpu/host/ops/operations.h"

namespace tandem::host {
namespace {

constexpr std::int64_t kRowsPerTask = 32;  // query heads x rows of the sequence
constexpr std::int64_t kKeyBlock = 128;    // scores computed before each softmax step
constexpr std::int64_t kMinSpan = 256;     // spans of fewer keys are not cut further
constexpr float kLowest = -std::numeric_limits<float>::infinity();

struct Task {
  const AttentionSequence* sequence;
  std::int32_t kv_head;
  std::int32_t first_row;  // within the sequence's rows
  std::int32_t num_rows;
  std::int32_t begin_key;
  std::int32_t end_key;
  std::int64_t partial;  // index of its first row's partial result; -1: it writes the output itself
  bool has_sinks;        // the first of a block's spans takes the sinks, if there are any
};

// The state of rows during their softmax: sum = sum of exp(score - max), out unnormalised.
struct Rows {
  float* out;  // [rows, d_stride]
  float* max;  // [rows]
  float* sum;  // [rows]
};

class Attention {
 public:
  Attention(OpContext& context, const AttentionArgs& args)
      : context_(context),
        args_(args),
        d_(args.q.cols()),
        d_stride_(padded(d_)),
        group_(args.q.dim[1] / args.kv_heads),
        size_(static_cast<std::int64_t>(size_of(args.q.dtype))) {}

  void run() {
    plan();
    std::int64_t bytes = 0;
    for (const Task& task : tasks_) {
      bytes += (task.end_key - task.begin_key) * d_ * size_ * 2 * (1 + task.num_rows / 4);
    }
    const std::int64_t row_floats = d_stride_ + 2;
    float* partial =
        num_partials_ == 0
            ? nullptr
            : context_.partial.get<float>(static_cast<std::size_t>(num_partials_ * row_floats));
    context_.for_each(static_cast<std::int64_t>(tasks_.size()), bytes,
                      [&](std::int64_t i, int worker) {
                        run_task(tasks_[static_cast<std::size_t>(i)], worker, partial);
                      });
    if (partial != nullptr) merge(partial);
  }

 private:
  std::int64_t rows_of(const Task& task) const { return task.num_rows * group_; }

  void plan() {
    const std::int64_t block = std::max<std::int64_t>(1, kRowsPerTask / group_);
    std::int64_t whole_tasks = 0;
    for (std::int32_t s = 0; s < args_.num_sequences; ++s) {
      if (args_.sequences[s].kv_len == 0) continue;
      whole_tasks += ceil_div(args_.sequences[s].num_rows, block) * args_.kv_heads;
    }
    const std::int64_t wanted = 4 * context_.pool->num_threads();
    const std::int64_t spans_each = whole_tasks == 0 ? 1 : ceil_div(wanted, whole_tasks);
    for (std::int32_t s = 0; s < args_.num_sequences; ++s) {
      const AttentionSequence& sequence = args_.sequences[s];
      if (sequence.kv_len == 0) continue;  // padding
      TANDEM_CHECK(sequence.num_rows >= 0 && sequence.kv_len >= sequence.num_rows &&
                       sequence.first_row + sequence.num_rows <= args_.q.rows(),
                   "sequence {}: {} rows from {}, {} keys", s, sequence.num_rows,
                   sequence.first_row, sequence.kv_len);
      // The longest blocks come first, so that none of them is left for the end.
      for (std::int64_t b = ceil_div(sequence.num_rows, block) - 1; b >= 0; --b) {
        const std::int64_t first = b * block;
        const std::int64_t count = std::min<std::int64_t>(block, sequence.num_rows - first);
        const std::int64_t position = sequence.kv_len - sequence.num_rows + first;
        const std::int64_t begin = first_key(position);
        for (std::int32_t h = 0; h < args_.kv_heads; ++h) {
          plan_spans({&sequence, h, static_cast<std::int32_t>(first),
                      static_cast<std::int32_t>(count), static_cast<std::int32_t>(begin),
                      static_cast<std::int32_t>(position + count), -1, args_.sinks.rank != 0},
                     spans_each);
        }
      }
    }
  }

  // The first key that the row at `position` sees.
  std::int64_t first_key(std::int64_t position) const {
    return args_.window == 0 ? 0 : std::max<std::int64_t>(0, position - args_.window + 1);
  }

  void plan_spans(Task task, std::int64_t spans) {
    const std::int64_t first = task.begin_key;
    const std::int64_t end = task.end_key;
    spans = std::clamp<std::int64_t>((end - first) / kMinSpan, 1, spans);
    if (spans == 1) {
      tasks_.push_back(task);
      return;
    }
    const std::int64_t page_tokens = args_.cache.page_tokens;
    const std::int64_t span = ceil_div(ceil_div(end - first, spans), page_tokens) * page_tokens;
    merges_.push_back({task, num_partials_, ceil_div(end - first, span)});
    for (std::int64_t begin = first; begin < end; begin += span) {
      task.begin_key = static_cast<std::int32_t>(begin);
      task.end_key = static_cast<std::int32_t>(std::min(end, begin + span));
      task.partial = num_partials_;
      num_partials_ += rows_of(task);
      tasks_.push_back(task);
      task.has_sinks = false;
    }
  }

  // The beginning of K (0) or V (1) for one head in the page that holds `key`.
  const std::byte* page(const Task& task, std::int64_t key, int which) const {
    const KvLayer& cache = args_.cache;
    const std::int64_t id = args_.page_ids[task.sequence->pages + key / cache.page_tokens];
    const std::int64_t head = static_cast<std::int64_t>(which) * args_.kv_heads + task.kv_head;
    const std::int64_t offset = (head * cache.page_tokens + key % cache.page_tokens) * d_;
    return static_cast<const std::byte*>(cache.base) + (id * cache.page_stride + offset) * size_;
  }

  // Calls body(key, count) for the pieces of [begin, end) that lie within one page.
  template <typename Body>
  void for_each_page(std::int64_t begin, std::int64_t end, Body body) const {
    const std::int64_t page_tokens = args_.cache.page_tokens;
    while (begin < end) {
      const std::int64_t count = std::min(end - begin, page_tokens - begin % page_tokens);
      body(begin, count);
      begin += count;
    }
  }

  std::byte* row_of(const TensorView& view, const Task& task, std::int64_t r) const {
    const std::int64_t t = task.sequence->first_row + task.first_row + r / group_;
    const std::int64_t h = task.kv_head * group_ + r % group_;
    return static_cast<std::byte*>(view.data) + (t * view.stride[0] + h * view.stride[1]) * size_;
  }

  float sink_of(const Task& task, std::int64_t r) const {
    return static_cast<const float*>(args_.sinks.data)[task.kv_head * group_ + r % group_];
  }

  void run_task(const Task& task, int worker, float* partial) {
    const std::int64_t rows = rows_of(task);
    WorkerScratch& scratch = context_.workers[static_cast<std::size_t>(worker)];
    float* q = scratch.operand.get<float>(static_cast<std::size_t>(rows * d_stride_));
    float* scores =
        scratch.tile.get<float>(static_cast<std::size_t>(rows * (kKeyBlock + d_stride_ + 2)));
    Rows state{scores + rows * kKeyBlock, nullptr, nullptr};
    if (task.partial >= 0) state.out = partial + task.partial * (d_stride_ + 2);
    state.max = state.out + rows * d_stride_;
    state.sum = state.max + rows;
    for (std::int64_t r = 0; r < rows; ++r) {
      widen_row(args_.q.dtype, row_of(args_.q, task, r), d_, args_.scale, q + r * d_stride_);
      // A sink is a score that has been seen before all others, with a value of zero.
      state.max[r] = task.has_sinks ? sink_of(task, r) : kLowest;
      state.sum[r] = task.has_sinks ? 1 : 0;
    }
    std::fill_n(state.out, rows * d_stride_, 0.0F);
    for (std::int64_t key = task.begin_key; key < task.end_key; key += kKeyBlock) {
      attend(task, q, scores, state, key, std::min<std::int64_t>(task.end_key, key + kKeyBlock));
    }
    if (task.partial < 0) {
      for (std::int64_t r = 0; r < rows; ++r) finish(task, state, r);
    }
  }

  // One step of the online softmax over keys [begin, end).
  void attend(const Task& task, const float* q, float* scores, Rows state, std::int64_t begin,
              std::int64_t end) const {
    const std::int64_t rows = rows_of(task);
    const DType dtype = args_.q.dtype;
    for_each_page(begin, end, [&](std::int64_t key, std::int64_t count) {
      dot_tile({dtype, page(task, key, 0), d_, count, d_, q, d_stride_, rows,
                scores + (key - begin), kKeyBlock});
    });
    const std::int64_t first_position =
        task.sequence->kv_len - task.sequence->num_rows + task.first_row;
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t position = first_position + r / group_;
      const std::int64_t from =
          std::clamp(first_key(position) - begin, std::int64_t{0}, end - begin);
      const std::int64_t to = std::clamp(position + 1 - begin, from, end - begin);
      float* row = scores + r * kKeyBlock;
      std::fill(row, row + from, 0.0F);                // weights of keys that have left the window
      std::fill(row + to, row + (end - begin), 0.0F);  // and of keys not yet seen
      const std::int64_t visible = to - from;
      if (visible == 0) continue;
      row += from;
      if (args_.softcap != 0) cap_row(row, visible, args_.softcap);
      const float max = std::max(state.max[r], max_row(row, visible));
      const float factor = max == kLowest ? 1.0F : std::exp(state.max[r] - max);
      if (factor != 1.0F) scale_row(state.out + r * d_stride_, d_stride_, factor);
      state.sum[r] = state.sum[r] * factor + exp_row(row, visible, max == kLowest ? 0.0F : max);
      state.max[r] = max;
    }
    for_each_page(begin, end, [&](std::int64_t key, std::int64_t count) {
      mix_tile({dtype, page(task, key, 1), d_, count, d_, scores + (key - begin), kKeyBlock, rows,
                state.out, d_stride_});
    });
  }

  void finish(const Task& task, Rows state, std::int64_t r) const {
    float* out = state.out + r * d_stride_;
    scale_row(out, d_,
              state.sum[r] > 0    ? 1.0F / state.sum[r]
              : state.sum[r] == 0 ? 0.0F
                                  : state.sum[r]);
    convert(DType::f32, out, args_.out.dtype, row_of(args_.out, task, r),
            static_cast<std::size_t>(d_));
  }

  void merge(float* partial) const {
    const std::int64_t row_floats = d_stride_ + 2;
    for (const Merge& merged : merges_) {
      const std::int64_t rows = rows_of(merged.task);
      const auto span_state = [&](std::int64_t span) {
        float* out = partial + (merged.partial + span * rows) * row_floats;
        return Rows{out, out + rows * d_stride_, out + rows * d_stride_ + rows};
      };
      const Rows total = span_state(0);
      for (std::int64_t r = 0; r < rows; ++r) {
        for (std::int64_t span = 1; span < merged.spans; ++span) {
          const Rows other = span_state(span);
          const float max = std::max(total.max[r], other.max[r]);
          if (max == kLowest) continue;
          const float keep = std::exp(total.max[r] - max);
          const float add = std::exp(other.max[r] - max);
          float* out = total.out + r * d_stride_;
          const float* more = other.out + r * d_stride_;
          for (std::int64_t i = 0; i < d_; ++i) out[i] = out[i] * keep + more[i] * add;
          total.sum[r] = total.sum[r] * keep + other.sum[r] * add;
          total.max[r] = max;
        }
        finish(merged.task, total, r);
      }
    }
  }

  struct Merge {
    Task task;
    std::int64_t partial;
    std::int64_t spans;
  };

  OpContext& context_;
  const AttentionArgs& args_;
  const std::int64_t d_;
  const std::int64_t d_stride_;
  const std::int64_t group_;
  const std::int64_t size_;
  std::vector<Task> tasks_;
  std::vector<Merge> merges_;
  std::int64_t num_partials_ = 0;
};

}  // namespace

void attention(OpContext& context, const AttentionArgs& args) {
  if (args.q.rows() == 0 || args.num_sequences == 0) return;
  Attention(context, args).run();
}

}  // namespace tandem::host
