#include "gpu/check_args.h"

#include <fmt/format.h>

#include <string>

#include "base/check.h"

namespace tandem {
namespace {

// The dims must agree, and every row (or head) must be contiguous.
void same_shape(const TensorView& a, const TensorView& b) {
  bool same = a.rank == b.rank;
  for (int i = 0; same && i < a.rank; ++i) same = a.dim[i] == b.dim[i];
  TANDEM_CHECK(same, "{} and {}", to_string(a), to_string(b));
}

std::string to_string(const Weight& w) {
  if (w.is_dense()) return tandem::to_string(w.data);
  return fmt::format("[{}, {}] {} of {} bits", w.rows(), w.cols(), to_string(w.format()),
                     w.form.bits);
}
void is_matrix(const TensorView& view) {
  TANDEM_CHECK(view.rank == 2, "{}", to_string(view));
}
void is_floating(const TensorView& view) {
  TANDEM_CHECK(view.dtype != DType::i32, "{}", to_string(view));
}
void is_weight(const Weight& w) {
  if (w.is_dense()) {
    is_matrix(w.data);
    is_floating(w.data);
    TANDEM_CHECK(w.data.is_dense(), "{}", to_string(w));
    return;
  }
  const WeightForm& form = w.form;
  const PackedArrays& arrays = w.packed;
  const bool has_form = form.group > 0 && form.scales.is_used() && form.scales.nested > 0 &&
                        form.offsets.nested > 0 && form.offsets.codes != ScaleForm::Codes::table;
  TANDEM_CHECK(has_form, "{}", to_string(w));
  const std::int64_t groups = form.groups(w.cols());
  const auto is_there = [&](const void* array, std::int64_t row_bytes) {
    return array != nullptr || row_bytes == 0 || w.rows() == 0;
  };
  TANDEM_CHECK(is_there(arrays.low, form.low_bytes(w.cols())) &&
                   is_there(arrays.high, form.high_bytes(w.cols())) &&
                   is_there(arrays.scales, form.scales.value_bytes(groups)) &&
                   is_there(arrays.scale_codes, form.scales.code_bytes(groups)) &&
                   is_there(arrays.offsets, form.offsets.value_bytes(groups)) &&
                   is_there(arrays.offset_codes, form.offsets.code_bytes(groups)) &&
                   is_there(arrays.zeros, form.has_zeros ? groups : 0) &&
                   is_there(w.table, form.scales.codes == ScaleForm::Codes::table ? 1 : 0),
               "{} without an array of its form", to_string(w));
}
void is_norm_weight(const TensorView& weight, const TensorView& x) {
  TANDEM_CHECK(weight.rank == 1 && weight.dim[0] == x.cols() && weight.dtype == DType::f32,
               "weight {} for {}", to_string(weight), to_string(x));
}
void are_sums_of_rows(const TensorView& sums, const TensorView& x) {
  is_matrix(x);
  TANDEM_CHECK(
      sums.rank == 2 && sums.rows() == x.rows() && sums.cols() == 1 && sums.dtype == DType::f32,
      "sums {} of {}", to_string(sums), to_string(x));
}

void fits_cache(const TensorView& heads, const KvLayer& cache) {
  TANDEM_CHECK(heads.rank == 3, "{}", to_string(heads));
  TANDEM_CHECK(cache.page_tokens > 0, "{} tokens a page", cache.page_tokens);
}

void is_a_job(const HandoffJob& job) {
  TANDEM_CHECK(job.descriptor != nullptr, "no descriptor");
  TANDEM_CHECK(job.num_groups >= 1 && job.num_groups <= kMaxColdGroups, "{} cold groups",
               job.num_groups);
}

}  // namespace

void check_args(const EmbedArgs& args) {
  is_weight(args.table);
  is_matrix(args.out);
  is_floating(args.out);
  TANDEM_CHECK(args.table.order == nullptr, "{} has an order", to_string(args.table));
  TANDEM_CHECK(args.table.cols() == args.out.cols(), "{} into {}", to_string(args.table),
               to_string(args.out));
  TANDEM_CHECK(args.scale == 1 || args.out.dtype == DType::f32, "{} scaled into {}",
               to_string(args.table), to_string(args.out));
}

void check_args(const RmsNormArgs& args) {
  TANDEM_CHECK(args.x.rank == 2 || args.x.rank == 3, "{}", to_string(args.x));
  same_shape(args.x, args.out);
  is_floating(args.x);
  is_floating(args.out);
  if (args.weight.rank != 0) is_norm_weight(args.weight, args.x);
  TANDEM_CHECK(args.own.table == nullptr || (args.own.slots != nullptr && args.weight.rank != 0),
               "weights of adapters for weight {}", to_string(args.weight));
  TANDEM_CHECK(!args.centred || args.x.dtype == DType::f32, "{} centred", to_string(args.x));
  if (args.squares.rank == 0) return;
  are_sums_of_rows(args.squares, args.x);
  TANDEM_CHECK(args.width > 0 && !args.centred, "{} as a part of {}", to_string(args.x),
               args.width);
}

void check_args(const SumSquaresArgs& args) {
  is_floating(args.x);
  are_sums_of_rows(args.out, args.x);
}

void check_args(const AddNormArgs& args) {
  is_matrix(args.residual);
  TANDEM_CHECK(args.residual.dtype == DType::f32, "{}", to_string(args.residual));
  if (args.sum.rank != 0) {
    same_shape(args.sum, args.residual);
    TANDEM_CHECK(args.sum.dtype == DType::f32, "{}", to_string(args.sum));
  }
  TANDEM_CHECK(args.scale == 1 || args.sum.rank != 0, "{} scaled by {} without a sum",
               to_string(args.residual), args.scale);
  if (args.sum_weight.rank != 0) is_norm_weight(args.sum_weight, args.residual);
  if (args.weight.rank != 0) is_norm_weight(args.weight, args.residual);
  if (args.out.rank != 0) {
    same_shape(args.out, args.residual);
    is_floating(args.out);
  }
}

void check_args(const GemmArgs& args) {
  is_matrix(args.x);
  const Weight& w = args.w;
  is_weight(w);
  is_matrix(args.y);
  is_floating(args.x);
  is_floating(args.y);
  TANDEM_CHECK(!w.is_dense() || w.data.dtype == args.x.dtype, "w {} for x {}", to_string(w),
               to_string(args.x));
  TANDEM_CHECK(
      w.cols() == args.x.cols() && args.y.rows() == args.x.rows() && args.y.cols() == w.rows(),
      "x {} w {} y {}", to_string(args.x), to_string(w), to_string(args.y));
  TANDEM_CHECK(args.bias.rank == 0 || (args.bias.rank == 1 && args.bias.dim[0] == w.rows() &&
                                       args.bias.dtype != DType::i32),
               "bias {} for {}", to_string(args.bias), to_string(w));
}

void check_args(const RotaryAnglesArgs& args) {
  is_matrix(args.frequencies);
  TANDEM_CHECK(args.frequencies.rows() > 0 && args.frequencies.is_dense() &&
                   args.frequencies.dtype == DType::f32,
               "frequencies {}", to_string(args.frequencies));
  TANDEM_CHECK(args.out.rank == 3 && args.out.dim[1] == 2 &&
                   args.out.cols() == args.frequencies.cols() && args.out.is_dense() &&
                   args.out.dtype == DType::f32,
               "angles {} of {}", to_string(args.out), to_string(args.frequencies));
}

void check_args(const RopeAppendArgs& args) {
  is_floating(args.q);
  TANDEM_CHECK(args.q.rank == 3 && args.q.cols() % 2 == 0, "q {}", to_string(args.q));
  same_shape(args.k, args.v);
  if (args.k.rank != 0) {
    fits_cache(args.k, args.cache);
    TANDEM_CHECK(args.q.cols() == args.k.cols() && args.q.rows() == args.k.rows(), "q {} k {}",
                 to_string(args.q), to_string(args.k));
    TANDEM_CHECK(args.q.dtype == args.k.dtype && args.k.dtype == args.v.dtype, "q {} k {} v {}",
                 to_string(args.q), to_string(args.k), to_string(args.v));
  }
  TANDEM_CHECK(args.q_scale.rank == 0 || (args.q_scale.rank == 1 && args.positions != nullptr &&
                                          args.q_scale.dtype == DType::f32),
               "scales {}", to_string(args.q_scale));
  if (args.cos_sin.rank == 0) return;
  TANDEM_CHECK(args.cos_sin.rank == 3 && args.cos_sin.dim[1] == 2 &&
                   args.cos_sin.cols() <= args.q.cols() / 2 && args.cos_sin.dtype == DType::f32,
               "table {} for {}", to_string(args.cos_sin), to_string(args.q));
  TANDEM_CHECK(args.positions != nullptr || args.cos_sin.rows() == args.q.rows(),
               "table {} for the rows of {}", to_string(args.cos_sin), to_string(args.q));
}

void check_args(const AttentionArgs& args) {
  same_shape(args.q, args.out);
  fits_cache(args.q, args.cache);
  is_floating(args.q);
  TANDEM_CHECK(args.q.dtype == args.out.dtype, "q {} out {}", to_string(args.q),
               to_string(args.out));
  TANDEM_CHECK(args.kv_heads > 0 && args.q.dim[1] % args.kv_heads == 0, "{} KV heads for q {}",
               args.kv_heads, to_string(args.q));
  TANDEM_CHECK(args.window >= 0 && args.softcap >= 0, "window {}, softcap {}", args.window,
               args.softcap);
  TANDEM_CHECK(args.sinks.rank == 0 || (args.sinks.rank == 1 && args.sinks.dtype == DType::f32 &&
                                        args.sinks.dim[0] == args.q.dim[1]),
               "sinks {} for q {}", to_string(args.sinks), to_string(args.q));
}

void check_args(const SwigluArgs& args) {
  is_matrix(args.gate_up);
  is_matrix(args.out);
  is_floating(args.gate_up);
  is_floating(args.out);
  const std::int64_t halves = args.up.rank == 0 ? 2 : 1;
  TANDEM_CHECK(
      args.gate_up.rows() == args.out.rows() && args.gate_up.cols() == halves * args.out.cols(),
      "{} into {}", to_string(args.gate_up), to_string(args.out));
  if (args.up.rank == 0) return;
  same_shape(args.up, args.out);
  TANDEM_CHECK(args.up.dtype == args.gate_up.dtype, "gate {} and up {}", to_string(args.gate_up),
               to_string(args.up));
}

void check_args(const GemmSwigluArgs& args) {
  check_args(GemmArgs{args.x, args.w, {}, args.gate_up});
  check_args(SwigluArgs{args.gate_up, args.out, args.activation});
}

void check_args(const ScaleLogitsArgs& args) {
  is_matrix(args.logits);
  TANDEM_CHECK(args.logits.dtype == DType::f32 && args.softcap >= 0, "{}, softcap {}",
               to_string(args.logits), args.softcap);
}

void check_args(const GatherRowsArgs& args) {
  is_matrix(args.x);
  is_matrix(args.out);
  TANDEM_CHECK(args.x.cols() == args.out.cols() && args.x.dtype == args.out.dtype, "{} into {}",
               to_string(args.x), to_string(args.out));
}

void check_args(const LoraArgs& args) {
  is_matrix(args.x);
  is_floating(args.x);
  TANDEM_CHECK(args.num_modules >= 1 && args.num_modules <= LoraArgs::kMaxModules, "{} modules",
               args.num_modules);
  for (int m = 0; m < args.num_modules; ++m) {
    is_matrix(args.out[m]);
    is_floating(args.out[m]);
    TANDEM_CHECK(args.out[m].rows() == args.x.rows(), "out {} for x {}", to_string(args.out[m]),
                 to_string(args.x));
  }
  TANDEM_CHECK(args.ids == nullptr || (args.num_modules == 1 && args.part != LoraPart::whole),
               "ids for {} modules", args.num_modules);
  for (int m = 0; m < args.num_modules; ++m) {
    const TensorView& bias = args.base_bias[m];
    TANDEM_CHECK(bias.rank == 0 || (bias.rank == 1 && bias.dim[0] == args.out[m].cols()),
                 "bias {} for out {}", to_string(bias), to_string(args.out[m]));
  }
  if (args.part == LoraPart::replace || args.part == LoraPart::tokens) {
    TANDEM_CHECK(args.num_modules == 1, "{} modules", args.num_modules);
    TANDEM_CHECK(
        args.part == LoraPart::replace || args.ids != nullptr || args.out[0].dtype == DType::f32,
        "out {}", to_string(args.out[0]));
    return;
  }
  if (args.part == LoraPart::whole || args.part == LoraPart::biases) return;
  is_matrix(args.v);
  TANDEM_CHECK(args.num_shares >= 1 && args.share >= 0 && args.share < args.num_shares,
               "share {} of {}", args.share, args.num_shares);
  const std::int64_t parts =
      std::int64_t{args.num_modules} * (args.part == LoraPart::shrink ? 1 : args.num_shares);
  const std::int64_t width = args.v.cols() / parts;
  TANDEM_CHECK(args.v.dtype == DType::f32 && args.v.is_dense() && args.v.rows() >= args.x.rows() &&
                   width * parts == args.v.cols() && width % 4 == 0 &&
                   width >= lora_share(args.max_rank, args.num_shares),
               "v {} of {} modules, rank {} in {} shares", to_string(args.v), args.num_modules,
               args.max_rank, args.num_shares);
}

void check_args(const OfferArgs& args) {
  is_matrix(args.x);
  is_floating(args.x);
  is_a_job(args);
  TANDEM_CHECK(args.num_segments >= 1, "{} segments", args.num_segments);
  TANDEM_CHECK(args.ready != nullptr, "no ready words");
}

void check_args(const AcceptArgs& args) {
  is_a_job(args);
  TANDEM_CHECK(args.num_modules >= 1 && args.num_modules <= LoraArgs::kMaxModules, "{} modules",
               args.num_modules);
  TANDEM_CHECK(args.dtype != DType::i32, "answers of {}", to_string(args.dtype));
  for (int m = 0; m < args.num_modules; ++m) {
    is_matrix(args.out[m]);
    TANDEM_CHECK(args.out[m].dtype == args.dtype || args.out[m].dtype == DType::f32,
                 "out {} for {}", to_string(args.out[m]), to_string(args.dtype));
  }
}

void check_args(const SampleArgs& args) {
  is_matrix(args.logits);
  TANDEM_CHECK(args.logits.dtype == DType::f32, "{}", to_string(args.logits));
}

void check_args(const AllReduceArgs& args) {
  TANDEM_CHECK(args.communicator != nullptr);
  is_matrix(args.part);
  same_shape(args.part, args.residual);
  TANDEM_CHECK(args.part.dtype == DType::f32 && args.part.is_dense(), "{}", to_string(args.part));
  TANDEM_CHECK(args.residual.dtype == DType::f32, "{}", to_string(args.residual));
  if (args.weight.rank != 0) {
    check_args(RmsNormArgs{args.residual, args.weight, args.eps, args.out});
  }
}

void check_args(const AllGatherArgs& args) {
  TANDEM_CHECK(args.communicator != nullptr);
  is_matrix(args.part);
  is_matrix(args.out);
  TANDEM_CHECK(args.part.dtype == DType::f32 && args.part.is_dense(), "{}", to_string(args.part));
  TANDEM_CHECK(args.out.dtype == DType::f32 && args.out.rows() == args.part.rows(), "{} of {}",
               to_string(args.out), to_string(args.part));
}

}  // namespace tandem
