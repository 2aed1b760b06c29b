// Arguments of the device operations: the maths, the shapes and the requirements of each.
//
// T rows (tokens) of a step, H hidden size, d head size. Metadata views (i32, and the structs
// below) lie in device memory like everything else, so that a captured graph may replay with new
// contents at the same addresses; plain integers are known when the step is enqueued.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/ids/ticket.h"
#include "base/tensor.h"
#include "gpu/activation.h"
#include "gpu/adapter_memory.h"
#include "gpu/weight.h"

namespace tandem {

class Communicator;
struct SampledToken;

// values[i] = previous[-1 - values[i]].token where values[i] < 0. So a step can be enqueued before
// the CPU knows the tokens of the previous step: their places hold -1 - (their index).
struct ResolveTokensArgs {
  std::int32_t* values;  // [count], replaced in place
  std::int32_t count;
  const SampledToken* previous;  // the tokens that the previous step sampled
};

// out[t] = scale * table[ids[t]]. `table` may be a shard of the vocabulary that begins at
// `first_id`: tokens of other shards become zeros.
struct EmbedArgs {
  Weight table;             // [rows, H], without an order; the rows of ids from first_id on
  const std::int32_t* ids;  // [T], each in [0, vocab)
  TensorView out;           // [T, H], f32 or compute dtype
  std::int32_t first_id = 0;
  std::int32_t vocab = 0;  // 0: the table's; ids beyond its rows become zeros, too
  float scale = 1;         // other than 1 only if `out` is f32
};

// out[r] = x[r] / sqrt(mean(x[r]^2) + eps) * weight, over the last dimension. `x` is [T, H], or
// [T, heads, d] for per-head norms (Qwen3). `out` may be `x` itself when the dtypes agree. Norm
// weights are f32 on every device: they are small, and families that multiply by 1 + weight (Gemma)
// have the sum stored without rounding.
struct RmsNormArgs {
  TensorView x;       // f32 or compute dtype, rows strided as they come
  TensorView weight;  // [last], f32; rank 0: 1
  float eps;
  TensorView out;        // as x, f32 or compute dtype
  bool centred = false;  // x[r] - mean(x[r]) in place of x[r], which is f32 then (LayerNorm)
  // If `x` is [T, n] and a part of rows whose other parts are on other ranks: the whole rows' sums
  // of squares, and the number of elements that the mean is over. Not with `centred`.
  TensorView squares = {};  // [T, 1], f32; rank 0: x has whole rows
  std::int64_t width = 0;
  OwnVectors own = {};  // [last], in place of `weight`, which has a rank then
};

// out[t] = sum of x[t]^2, in float.
struct SumSquaresArgs {
  TensorView x;    // [T, n], f32 or compute dtype, row stride free
  TensorView out;  // [T, 1], f32, row stride free
};

// The end of a block whose sum has a norm of its own, or whose input has none (Gemma, OLMo 2):
//   residual += sum / sqrt(mean(sum^2) + eps) * sum_weight, or += sum without a sum_weight;
//   residual *= scale (Gemma 4);
//   out = residual / sqrt(mean(residual^2) + eps) * weight, or = residual without a weight.
struct AddNormArgs {
  TensorView sum;         // [T, H], f32; rank 0: nothing is added
  TensorView sum_weight;  // [H], f32; rank 0: the sum is added as it is
  TensorView residual;    // [T, H], f32
  TensorView weight;      // [H], f32; rank 0: no norm of the residual
  float eps;
  TensorView out;   // [T, H], f32 or compute dtype; rank 0: only the residual is wanted
  float scale = 1;  // other than 1 only with a sum
};

// y = x w^T (+ bias), or y += x w^T (+ bias) when `accumulate`.
struct GemmArgs {
  TensorView x;     // [T, in], compute dtype
  Weight w;         // [out, in]
  TensorView bias;  // [out], compute dtype; rank 0: none
  TensorView y;     // [T, out], compute dtype or f32, row stride free
  bool accumulate = false;
};

// One layer of the paged KV cache. Token p of a sequence lives in the sequence's page
// p / page_tokens, at p % page_tokens. Pages hold K and V of one layer's tokens, heads outside:
// [2, kv_heads, page_tokens, d], so that a head's keys are contiguous within a page.
struct KvLayer {
  void* base = nullptr;          // [num_pages, 2, kv_heads, page_tokens, d], compute dtype
  std::int64_t page_stride = 0;  // elements from one page to the next
  std::int32_t page_tokens = 0;
};

// Angles of rows whose frequencies depend on a length:
//   out[t] = scale (cos, sin)(positions[t] frequencies[c]),
//   c = lengths[t] - first_length, but at least 0 and at most choices - 1.
// The angles are rounded to float.
struct RotaryAnglesArgs {
  TensorView frequencies;         // [choices, n], f32
  const std::int32_t* positions;  // [T]
  const std::int32_t* lengths;    // [T]
  std::int32_t first_length = 0;
  float scale = 1;
  TensorView out;  // [T, 2, n], f32
};

// Rotary embedding of the first 2 n elements of each head, n <= d/2: for i < n, the pair
// (x[i], x[i + n]), as in Hugging Face's Llama, or (x[2 i], x[2 i + 1]) if `interleaved`, is
// rotated by the angle with cosine and sine cos_sin[position][0 and 1][i]. q is rotated in place.
// Rotated k, and v, are written to slot slots[t] = page * page_tokens + offset; the operands k and
// v stay unchanged. Rows with slot -1 (padding of a captured step) write none.
struct RopeAppendArgs {
  TensorView q;        // [T, heads, d], compute dtype, d even
  TensorView k;        // [T, kv_heads, d]; rank 0: none is written
  TensorView v;        // as k
  TensorView cos_sin;  // [max positions, 2, n], f32, or [T, 2, n]; rank 0: nothing rotates
  const std::int32_t* positions;  // [T]; null: row t of `cos_sin` is that of row t
  const std::int32_t* slots;      // [T]
  KvLayer cache;
  bool interleaved = false;
  TensorView q_scale =
      {};  // [max positions], f32: q is multiplied by that of its position; rank 0: 1
};

// The rows of one sequence in a step: its last `num_rows` tokens out of `kv_len`.
struct AttentionSequence {
  std::int32_t first_row;
  std::int32_t num_rows;  // 1: decode; more: a prefill chunk (causal within it)
  std::int32_t kv_len;    // keys visible to the last of the rows, itself included
  std::int32_t pages;     // index of its first page id in page_ids
  // The number of leading keys that were written by operations enqueued before
  // Stream::plan_attention; a device may read them before rope_append ends. 0: unknown.
  std::int32_t settled = 0;
};

// A stream keeps the plans of so many shapes of heads: windowed layers may have others than full
// ones.
constexpr int kAttentionPlans = 2;

// The parameters that the attention operations of a step share whose heads have one shape; set
// before them by Stream::plan_attention. A device may split long sequences over its processors; the
// CPU lays that out in this call, once for all layers.
struct AttentionPlan {
  std::int32_t heads = 0;
  std::int32_t kv_heads = 0;
  std::int32_t head_dim = 0;
  std::int32_t page_tokens = 0;
  DType dtype = DType::bf16;
  // Host memory, read before the call returns. A sequence with kv_len 0 is padding: nothing is read
  // for it, and its rows of `out` do not matter.
  const AttentionSequence* sequences = nullptr;
  std::int32_t num_sequences = 0;
  std::int32_t num_rows = 0;
  // The attention operations of this plan will run in a captured graph for this number of rows and
  // sequences, so launch shapes may depend on these two numbers alone.
  bool captured = false;
  bool bounded = false;  // some of the attention operations have a window, a softcap or sinks
  bool sinks = false;    // some have sinks
};

// out[t, h] = softmax(scale q[t, h] K^T) V over the sequence's own keys 0 .. position(t), with
// grouped queries: query head h reads KV head h / (heads / kv_heads). With a window, the row at
// position p sees the keys p - window + 1 .. p. With a softcap, a score s becomes
// softcap tanh(s / softcap) (Gemma 2). With sinks, the softmax of head h has one score more,
// sinks[h], which is neither scaled nor capped, and whose value is zero (gpt-oss).
struct AttentionArgs {
  TensorView q;   // [T, heads, d], compute dtype
  KvLayer cache;  // the rows' own keys are already appended
  std::int32_t kv_heads;
  const AttentionSequence* sequences;  // [num_sequences]
  const std::int32_t* page_ids;        // the block tables of all sequences, one after another
  std::int32_t num_sequences;
  std::int32_t max_rows;    // largest num_rows of any sequence
  std::int32_t max_kv_len;  // largest kv_len
  float scale;
  TensorView out;           // [T, heads, d], compute dtype
  std::int32_t window = 0;  // 0: a row sees all keys before it
  float softcap = 0;        // 0: scores stay
  TensorView sinks = {};    // [heads], f32; rank 0: none
};

// out[t, i] = activation(gate_up[t, i]) * gate_up[t, ffn + i]; with `up`,
// out[t, i] = activation(gate_up[t, i]) * up[t, i].
struct SwigluArgs {
  TensorView gate_up;  // [T, 2 ffn], or [T, ffn] with `up`; compute dtype or f32
  TensorView out;      // [T, ffn], compute dtype
  Activation activation = Activation::silu;
  TensorView up = {};  // [T, ffn], as gate_up; rank 0: none
};

// gemm() into `gate_up`, then swiglu() of it. A device may fuse the two and leave `gate_up`
// unchanged or partly written. Both halves are rounded to the compute dtype first, as in swiglu().
struct GemmSwigluArgs {
  TensorView x;        // [T, in], compute dtype
  Weight w;            // [2 ffn, in]
  TensorView gate_up;  // [T, 2 ffn], compute dtype
  TensorView out;      // [T, ffn], compute dtype
  Activation activation = Activation::silu;
};

// logits = softcap tanh(multiplier logits / softcap), in place; without a softcap,
// logits = multiplier logits.
struct ScaleLogitsArgs {
  TensorView logits;  // [S, vocab], f32
  float multiplier = 1;
  float softcap = 0;
};

// Adds up the partial sums of all ranks: residual = sum over ranks of part, or residual += it; then
// out = norm(residual) as in RmsNormArgs, if a weight is given. All ranks add in the same order, so
// their residuals agree to the bit. `part` is memory of the communicator, at the same offset on all
// ranks, and undefined afterwards; a rank may write to it again once it has taken part in another
// operation of the group.
struct AllReduceArgs {
  Communicator* communicator = nullptr;
  TensorView part;      // [T, H], f32, dense; the same shape on all ranks
  TensorView residual;  // [T, H], f32
  bool accumulate = true;
  TensorView weight;  // [H], f32; rank 0: no norm
  float eps = 0;
  TensorView out;  // [T, H], f32 or compute dtype
};

// out[t] = all ranks' part[t], concatenated. As AllReduceArgs, but widths may differ by rank.
struct AllGatherArgs {
  Communicator* communicator = nullptr;
  TensorView part;  // [T, share], f32, dense
  TensorView out;   // [T, sum of shares], f32
};

// out[i] = x[rows[i]]
struct GatherRowsArgs {
  TensorView x;
  const std::int32_t* rows;  // [out.rows()]
  TensorView out;            // same dtype and width as x
};

// The rows of one adapter in a step: rows[first .. first + count) of LoraArgs.
struct LoraSegment {
  std::int32_t slot;  // the adapter's row in the weight table; not read when count is 0
  std::int32_t first;
  std::int32_t count;
};

// The modules of a fused projection in one layer: the outputs to which their deltas are added, and
// the matrices of all adapters for them.
struct LoraModules {
  static constexpr int kMaxModules = 3;  // q, k, v

  std::int32_t num_modules = 0;
  TensorView out[kMaxModules];        // [T, out of m], compute dtype or f32, row stride free
  const LoraMatrix* table = nullptr;  // already offset to the layer's first module
  std::int64_t slot_stride = 0;       // matrices per slot
  LoraPages pages;
};

// The part of a LoRA operation to compute: all of it, only v = x A^T, only y += v B^T, y = x B^T
// with a whole weight of the adapter's own for B, what its own rows for a few tokens give, or its
// own biases.
enum class LoraPart : std::uint8_t { whole, shrink, expand, replace, tokens, biases };

// The number of an adapter's ranks that each of `num_shares` devices computes when they share them:
// a multiple of four, which is 16 bytes of v. The last devices may have fewer, or none.
constexpr std::int32_t lora_share(std::int32_t rank, std::int32_t num_shares) {
  return (rank + 4 * num_shares - 1) / (4 * num_shares) * 4;
}

// For every segment s, row t of it, and module m of the fused projection:
//   out[m][t] += x[t] A^T B^T + bias, (A, B) = table[slot(s) * slot_stride + m].
// Rows in no segment use the base model alone; segments without rows are padding. S-LoRA's MBGMV
// and Punica's SGMV are two ways to compute this. Ranks up to DeviceInfo::max_lora_rank may be
// mixed.
//
// As two halves, between which devices that share a model exchange v (S-LoRA, section 6). Let M be
// the number of modules, n = lora_share(rank of (A, B), num_shares), and w the width of v per
// module, at least lora_share(max_rank, num_shares):
//   shrink  v[t, m w + j] = x[t] A[share n + j]^T for j < n: one share of the ranks. v: [T, M w]
//   expand  out[m][t, o] += sum over shares s and j < n of v[t, (s M + m) w + j] B[o', s n + j],
//           o' = first_column + o. v: [T, num_shares M w], the shares one after another
// The other elements of v (other rows, ranks past the adapter's) are not read, but may be written.
//
// Replacing, where B has x's width for a rank, whatever max_rank is (0: no adapter has modules):
//   replace  out[0][t] = x[t] B^T + base_bias[0]; rows whose adapter does not have the module keep
//            what they hold
//   tokens   out[0][t, id[j]] = x[t] A[j]^T for the ids in B (base/lora_rows.h), ascending, below
//            out[0].cols(); `out` is f32, and its other elements keep what they hold
//   biases   out[m][t] += B - base_bias[m], where B is a vector (base/lora_rows.h); x is not read
//
// With `ids`, x is not in memory, and one module of an embedding's tokens is computed:
//   shrink   row t of x is id_scale times the unit vector of ids[t], one of x.cols()
//   replace  out[0][t] = id_scale B[ids[t]], B [x.cols(), rank], if it has the row, [rank] columns
//   tokens   out[0][t] = id_scale A[j] where id[j] = ids[t], A [rank, out[0].cols()]
struct LoraArgs : LoraModules {
  TensorView x;              // [T, in], compute dtype; for `expand` only the dtype matters
  const std::int32_t* rows;  // [num_rows], each row in at most one segment
  std::int32_t num_rows;
  const LoraSegment* segments;  // [num_segments]
  std::int32_t num_segments;
  std::int32_t max_rank;   // largest rank of any segment's adapter, or a bound on it
  std::int32_t max_count;  // largest count of any segment, or a bound on it
  // True if operations just before this one (offer) decide which segments and weights there are:
  // none of that is read before they have ended.
  bool live = false;
  bool adds_bias = true;  // false: no adapter has biases, or another device adds them
  LoraPart part = LoraPart::whole;
  TensorView v;  // for the halves: f32, dense, rows of whole 16 bytes
  std::int32_t num_shares = 1;
  std::int32_t share = 0;             // for shrink: the index of this share
  std::int32_t first_column = 0;      // for expand: the row of B that belongs to column 0 of out[m]
  const std::int32_t* ids = nullptr;  // [T], each in [0, x.cols()); may be more unless shrinking
  float id_scale = 1;
  TensorView base_bias[kMaxModules] = {};  // [out of m], compute dtype; rank 0: 0
};

// The handoff of cold adapters to CPU workers (docs/architecture.md). A group is the rows of a step
// with one adapter that is not yet on the device: a segment of LoraArgs. A step's groups are fixed.
struct ColdGroup {
  std::int32_t segment;      // index in segments
  std::int32_t mailbox;      // index of the mailbox whose workers compute the group
  std::int32_t first_row;    // where its rows begin in the mailbox's areas
  std::uint32_t generation;  // the ready words hold this once that part of the load has arrived
  std::uint64_t workers;     // mask of the worker slots that share the group
};

// A mailbox (shm/mailbox.h) as the device sees it: host memory that was passed to Device::pin, so
// that operations may read and write it.
struct MailboxView {
  std::byte* x = nullptr;  // row r of a group: (first_row * max_in + r * in) elements in
  std::uint64_t* doorbells = nullptr;  // group g's: doorbells[g * doorbell_stride]
  std::int64_t doorbell_stride = 0;
  const std::byte* y = nullptr;  // row r of a group: (first_row * max_out + r * out) elements in
  const float* v = nullptr;      // likewise with v_row and rank_columns; at most max_v of it
  const std::uint64_t* done =
      nullptr;  // worker slot w and group g: done[w * worker_slot_stride + g]
  std::int64_t worker_slot_stride = 0;
  std::int64_t max_in = 0, max_out = 0, max_v = 0, v_row = 0;
};

// The handoff's state on the device, zero at first. It lies in device memory; with several ranks,
// in what Communicator::allocate_words gave the first one.
struct HandoffState {
  std::uint32_t
      broken[kMaxMailboxes];  // 1: a deadline passed; offers to it are dropped until it is 0
};

// The part of a job that differs from offer to offer. It lies in device memory, where only copies
// and uploads write it, so that one recording of an offer and its accept serves every job with as
// many groups.
struct OfferDescriptor {
  std::uint64_t sequence = 0;    // rises from offer to offer; never repeats on a stream
  std::uint64_t cpu_groups = 0;  // masks over the groups (OfferArgs)
  std::uint64_t xa_groups = 0;
  // Bit g: group g's adapter has module m in this layer. Otherwise the module's columns of y are
  // not valid. The weight table may not know yet, as its rows travel with the load.
  std::uint64_t adapted[LoraModules::kMaxModules] = {};
};

// The fields that an offer and the accept that follows it share.
struct HandoffJob {
  const OfferDescriptor* descriptor;
  const std::int32_t* rows;     // as in LoraArgs
  const LoraSegment* segments;  // the step's, not the live ones
  const ColdGroup* groups;      // [num_groups], device memory
  std::int32_t num_groups;      // 1 .. kMaxColdGroups
  std::int32_t max_count;       // most rows of any group, or a bound
  std::uint32_t* tickets;       // [num_groups] of Ticket, device memory
  // When the offer gave the first group its ticket: nanoseconds of the device's own clock, in
  // device memory. Null: not wanted.
  std::uint64_t* time = nullptr;
  HandoffState* state;  // read by the offer, written by the accept
  MailboxView mailboxes[kMaxMailboxes];
  // For ranks that share the model: all of them offer and accept the same jobs, with one `state`.
  // Null: there is only one device.
  Communicator* communicator = nullptr;
};

// The offer gives every group one ticket:
//   gpu     if the group is in neither mask, as the stream has waited for its weights;
//           or ready[slot * slot_stride + a and b] both hold its generation
//   dropped if its mailbox is broken
//   cpu_xa  if it is in xa_groups and B's ready word holds its generation
//   cpu     otherwise, if in cpu_groups; a group in xa_groups alone, with B not ready: dropped
// For cpu and cpu_xa, its rows of x go to the mailbox. Then, in every case, the group's doorbell is
// rung: a release store at system scope, after its rows. live[s] = segments[s], with count 0 where
// a group's ticket is not gpu. Weights that a gpu ticket found ready are visible to later
// operations of the stream.
//
// With several ranks, each shows the others what it knows, and all derive the same ticket from
// that: a word is ready when it is ready on all ranks. x is the same on all ranks, and the first
// rank copies it to the mailbox; or each has its own columns (`x_is_part`), which go there side by
// side. The first rank rings.
struct OfferArgs : HandoffJob {
  TensorView x;  // [T, in], compute dtype
  bool x_is_part = false;
  std::uint32_t* shown = nullptr;  // [2][kMaxColdGroups], from Communicator::allocate_words
  std::int32_t num_segments;
  LoraSegment* live;           // [num_segments]
  const std::uint32_t* ready;  // [slots][slot_stride], offset to the layer's words: A's, then B's
  std::int64_t slot_stride;
};

// Receives the answers to the preceding offer, for groups whose ticket is cpu or cpu_xa: waits
// until all of the group's workers have answered (done == sequence), then
//   cpu     out[m][t] += y[t, column of m ..], for modules m that the adapter has
//   cpu_xa  out[m][t] += v[t, ranks of m] B^T, (A, B) = table[slot * slot_stride + m]
// A group times out if its answers have not come `deadline_us` after the operation began, or if its
// mailbox is broken by then: timed_out[g] = 1, state->broken[mailbox] = 1, and nothing is added for
// it. A group whose ticket is `dropped` also counts as timed out, but breaks no mailbox. The wait
// is bounded, whatever a worker writes.
//
// With several ranks, each adds its columns of y, or v times its rows of B; if every rank computes
// the whole product (`is_whole`), each adds all; and if the parts of the product are summed later
// (`is_sum`), rank 0 adds all. A timeout on one rank holds for all.
struct AcceptArgs : HandoffJob, LoraModules {
  bool is_sum = false;
  bool is_whole = false;
  DType dtype = DType::bf16;  // the dtype of y and the weights
  std::uint32_t deadline_us;
  std::uint32_t* timed_out;  // [num_groups], device memory; set, never cleared
  bool any_xa;               // some group may have a cpu_xa ticket, now or at any replay
};

// How the token of one row is chosen. Steps, in order: logit bias, repetition penalty (over prompt
// and output, as in Hugging Face), presence and frequency penalties (over the output), then argmax
// if temperature is 0, otherwise softmax(logits / temperature) cut to top_k, top_p and min_p, and a
// draw by a counter-based generator of (seed, position, token id) alone, regardless of the batch.
// Ties go to the lower id. Log probabilities are of the model's own logits, before these steps. A
// mask applies first: forbidden tokens have a logit of -infinity, for log probabilities as well.
// Rows with a forced token ignore masks.
struct SampleRow {
  float temperature = 0;
  float top_p = 1;
  float min_p = 0;
  std::int32_t top_k = 0;  // 0: no limit
  float repetition_penalty = 1;
  float presence_penalty = 0;
  float frequency_penalty = 0;
  std::int32_t num_logprobs = -1;  // -1: none; k: those of the chosen token and of the k best ones
  std::int32_t forced_token = -1;  // >= 0: do not sample, report this token's log probability
  std::int32_t history = 0;        // first index in SampleArgs::history
  std::int32_t prompt_len = 0;     // history holds the prompt, then the output
  std::int32_t history_len = 0;    // 0 when no penalty is set
  std::int32_t bias = 0;           // first index in SampleArgs::biases
  std::int32_t num_biases = 0;
  std::int32_t mask = -1;  // index in SampleArgs::masks; -1: none
  std::int32_t zero = 0;   // fills the gap: rows are copied into recordings byte by byte
  std::uint64_t seed = 0;
  std::uint64_t position = 0;  // position in its sequence of the token to be drawn
};

// A bias added to a token's logit; -infinity bans the token.
struct TokenBias {
  std::int32_t token;
  float bias;
};

struct SampledToken {
  static constexpr int kMaxLogprobs = 20;
  std::int32_t token = -1;
  float logprob = 0;      // set when num_logprobs >= 0 or the token was forced
  std::int32_t rank = 0;  // 1: the most likely token; set when num_logprobs >= 0
  // The number of entries below, most likely first, ties by lower id; a mask may leave fewer.
  std::int32_t num_top = 0;
  std::int32_t top_tokens[kMaxLogprobs] = {};
  float top_logprobs[kMaxLogprobs] = {};
};

// The number of words in a token mask: bit i % 32 of word i / 32 set means token i may be drawn.
constexpr std::int64_t mask_words(std::int64_t vocab) {
  return (vocab + 31) / 32;
}

struct SampleArgs {
  TensorView logits;      // [S, vocab], f32; may be overwritten; NaN counts as -infinity
  const SampleRow* rows;  // [S]
  const std::int32_t* history;
  const TokenBias* biases;
  SampledToken* out;                     // [S]
  const std::uint32_t* masks = nullptr;  // [.., mask_words(vocab)]; null: no row has one
};

}  // namespace tandem
