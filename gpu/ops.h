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
#include "gpu/weight.h"

namespace tandem {

class Communicator;
struct SampledToken;

// values[i] = previous[-1 - values[i]].token where values[i] < 0. So a step can be enqueued before
// the tokens of the step before it are known on the CPU: their places hold -1 - (their index).
struct ResolveTokensArgs {
  std::int32_t* values;  // [count], replaced in place
  std::int32_t count;
  const SampledToken* previous;  // what the step before sampled
};

// out[t] = table[ids[t]]. Of a part of the vocabulary, which begins at `first_id`: zeros for tokens
// of other parts.
struct EmbedArgs {
  TensorView table;         // [vocab, H], compute dtype; rows [first_id, first_id + rows) of it
  const std::int32_t* ids;  // [T], each in [0, vocab)
  TensorView out;           // [T, H], f32 or compute dtype
  std::int32_t first_id = 0;
  std::int32_t vocab = 0;  // 0: the table is all of it
};

// out[r] = x[r] / sqrt(mean(x[r]^2) + eps) * weight, over the last dimension. `x` is [T, H], or
// [T, heads, d] for per-head norms (Qwen3). `out` may be `x` itself when the dtypes agree.
struct RmsNormArgs {
  TensorView x;       // f32 or compute dtype, rows strided as they come
  TensorView weight;  // [last], compute dtype
  float eps;
  TensorView out;  // as x, f32 or compute dtype
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

// Rotary embedding, the half-split form of Hugging Face Llama: for i < d/2, (x[i], x[i + d/2])
// turns by the angle whose cosine and sine are cos_sin[position][0 and 1][i]. q turns in place; k,
// turned, and v of every row are written to slot slots[t] = page * page_tokens + offset, and stay
// as they are. A row whose slot is -1 (padding of a captured step) writes none.
struct RopeAppendArgs {
  TensorView q;                   // [T, heads, d], compute dtype, d even
  TensorView k;                   // [T, kv_heads, d]
  TensorView v;                   // [T, kv_heads, d]
  TensorView cos_sin;             // [max positions, 2, d/2], f32
  const std::int32_t* positions;  // [T]
  const std::int32_t* slots;      // [T]
  KvLayer cache;
};

// The rows of one sequence in a step: its last `num_rows` tokens out of `kv_len`.
struct AttentionSequence {
  std::int32_t first_row;
  std::int32_t num_rows;  // 1: decode; more: a prefill chunk (causal within it)
  std::int32_t kv_len;    // keys visible to the last of the rows, itself included
  std::int32_t pages;     // index of its first page id in page_ids
  // So many of its keys, from the first on, were written by what was enqueued before
  // Stream::plan_attention: a device may read them before rope_append ends. 0: nothing is known.
  std::int32_t settled = 0;
};

// What the attention operations of one step have in common, told once before them
// (Stream::plan_attention): a device may split long sequences over its processors, and lays out how
// here, on the CPU, once for all layers.
struct AttentionPlan {
  std::int32_t heads = 0;
  std::int32_t kv_heads = 0;
  std::int32_t head_dim = 0;
  std::int32_t page_tokens = 0;
  DType dtype = DType::bf16;
  // Host memory, read before the call returns. A sequence with kv_len 0 is padding: nothing is
  // read for it and its rows of `out` are of no account.
  const AttentionSequence* sequences = nullptr;
  std::int32_t num_sequences = 0;
  std::int32_t num_rows = 0;
  // The attention operations of this plan will run in a captured graph for this many rows and
  // sequences: launch shapes may depend on these two numbers alone.
  bool captured = false;
};

// out[t, h] = softmax(scale q[t, h] K^T) V over the sequence's own keys 0 .. position(t), with
// grouped queries: query head h reads KV head h / (heads / kv_heads).
struct AttentionArgs {
  TensorView q;   // [T, heads, d], compute dtype
  KvLayer cache;  // the rows' own keys are already appended
  std::int32_t kv_heads;
  const AttentionSequence* sequences;  // [num_sequences]
  const std::int32_t* page_ids;        // all sequences' block tables, one after another
  std::int32_t num_sequences;
  std::int32_t max_rows;    // largest num_rows of any sequence
  std::int32_t max_kv_len;  // largest kv_len
  float scale;
  TensorView out;  // [T, heads, d], compute dtype
};

// out[t, i] = silu(gate_up[t, i]) * gate_up[t, ffn + i]
struct SwigluArgs {
  TensorView gate_up;  // [T, 2 ffn], compute dtype
  TensorView out;      // [T, ffn], compute dtype
};

// gemm() into `gate_up`, then swiglu() of it: a device may do both at once, and leave `gate_up` as
// it was or half done. Both halves are rounded to the compute dtype before they meet, as there.
struct GemmSwigluArgs {
  TensorView x;        // [T, in], compute dtype
  Weight w;            // [2 ffn, in]
  TensorView gate_up;  // [T, 2 ffn], compute dtype
  TensorView out;      // [T, ffn], compute dtype
};

// What every rank has computed of a sum, added up: residual = sum over ranks of part, or residual
// += it; then out = norm(residual) as in RmsNormArgs, if a weight is given. All ranks add in the
// same order, so that their residuals are the same to the bit. `part` is memory of the
// communicator, at the same place of it on all ranks, and what it holds afterwards is of no
// account; a rank may write to it again when it has taken part in another operation of the group.
struct AllReduceArgs {
  Communicator* communicator = nullptr;
  TensorView part;      // [T, H], f32, dense; the same shape on all ranks
  TensorView residual;  // [T, H], f32
  bool accumulate = true;
  TensorView weight;  // [H], compute dtype; rank 0: no norm
  float eps = 0;
  TensorView out;  // [T, H], f32 or compute dtype
};

// out[t] = the ranks' part[t], one after another. As AllReduceArgs; the parts may differ in width.
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

// One adapter's delta for one module of one layer: delta = x A^T B^T with A [rank, in] and
// B [out, rank] as PEFT stores them, the scale folded into B. Rows of B are `b_stride` elements
// apart and rows of A are `in` apart, both at least 16-byte aligned when `in` allows; A and B begin
// at multiples of 64 bytes.
struct LoraMatrix {
  std::uint64_t a = 0;    // [rank, in], dtype of x: an address, or see LoraPages
  std::uint64_t b = 0;    // [out, b_stride], dtype of x; columns past `rank` are zero
  std::int32_t rank = 0;  // 0: the adapter leaves this module alone
  std::int32_t b_stride = 0;
};

// Adapters that lie in pages of a pool, in any order (S-LoRA's Unified Paging). Byte i of slot s is
// at base + (ids[s * slot_stride + (i >> shift)] << shift) + (i & (2^shift - 1)), and LoraMatrix's
// a and b are such i. Chunks are 4 KiB or more, so 64 aligned bytes never straddle two.
struct LoraPages {
  std::byte* base = nullptr;          // null: LoraMatrix holds addresses
  const std::int32_t* ids = nullptr;  // [slots, slot_stride], device memory
  std::int64_t slot_stride = 0;
  std::int32_t shift = 0;
};

// The rows of one adapter in a step: rows[first .. first + count) of LoraArgs.
struct LoraSegment {
  std::int32_t slot;  // which adapter: row of the weight table; not read when count is 0
  std::int32_t first;
  std::int32_t count;
};

// The modules of a fused projection in one layer: where their deltas go, and every adapter's
// matrices for them.
struct LoraModules {
  static constexpr int kMaxModules = 3;  // q, k, v

  std::int32_t num_modules = 0;
  TensorView out[kMaxModules];        // [T, out of m], compute dtype or f32, row stride free
  const LoraMatrix* table = nullptr;  // already offset to the layer's first module
  std::int64_t slot_stride = 0;       // matrices per slot
  LoraPages pages;
};

// What of a LoRA operation is computed: v = x A^T and y += v B^T at once, or one half of it.
enum class LoraPart : std::uint8_t { whole, shrink, expand };

// How many ranks of an adapter each of so many devices computes that share them out: a multiple of
// four, 16 bytes of v. The last ones may have fewer, or none.
constexpr std::int32_t lora_share(std::int32_t rank, std::int32_t num_shares) {
  return (rank + 4 * num_shares - 1) / (4 * num_shares) * 4;
}

// For every segment s, row t of it, and module m of the fused projection:
//   out[m][t] += x[t] A^T B^T, (A, B) = table[slot(s) * slot_stride + m].
// Rows in no segment belong to the base model; segments of no rows are padding. S-LoRA's MBGMV and
// Punica's SGMV are two ways to compute this; ranks 1 to 512 may stand side by side.
//
// In two halves, between which devices that share a model tell each other v (S-LoRA, section 6).
// With M modules, n = lora_share(rank of (A, B), num_shares), and w the width that v has for a
// module, no less than lora_share(max_rank, num_shares):
//   shrink  v[t, m w + j] = x[t] A[share n + j]^T for j < n: one share of the ranks. v: [T, M w]
//   expand  out[m][t, o] += sum over shares s and j < n of v[t, (s M + m) w + j] B[o', s n + j],
//           o' = first_column + o. v: [T, num_shares M w], the shares' one after another
// What v holds beside that (other rows, ranks past the adapter's) is not read, and may be written.
struct LoraArgs : LoraModules {
  TensorView x;              // [T, in], compute dtype; of `expand` only its dtype counts
  const std::int32_t* rows;  // [num_rows], each row in at most one segment
  std::int32_t num_rows;
  const LoraSegment* segments;  // [num_segments]
  std::int32_t num_segments;
  std::int32_t max_rank;   // largest rank of any segment's adapter, or a bound on it
  std::int32_t max_count;  // largest count of any segment, or a bound on it
  // Segments, and which weights are there, are decided by operations that run just before this one
  // (offer): nothing of them is read before those have ended.
  bool live = false;
  LoraPart part = LoraPart::whole;
  TensorView v;  // of halves: f32, dense, rows of whole 16 bytes
  std::int32_t num_shares = 1;
  std::int32_t share = 0;         // of shrink
  std::int32_t first_column = 0;  // of expand: which row of B belongs to the first column of out[m]
};

// The handoff of cold adapters to CPU workers (docs/architecture.md, "A cold layer, from offer to
// accept"). A group is the rows of one adapter in a step that is not on the device yet: one segment
// of LoraArgs. Groups and their order hold for a whole step.
struct ColdGroup {
  std::int32_t segment;      // index in segments
  std::int32_t mailbox;      // index in the mailboxes: whose workers compute it
  std::int32_t first_row;    // of the mailbox's areas
  std::uint32_t generation;  // what the ready words hold when a part of this load has arrived
  std::uint64_t workers;     // mask of the worker slots that share it
};

// A mailbox (shm/mailbox.h) as the device sees it: host memory that Device::pin has been told of,
// so that operations may read and write it.
struct MailboxView {
  std::byte* x = nullptr;  // row r of a group: (first_row * max_in + r * in) elements in
  std::uint64_t* doorbells = nullptr;  // group g's: doorbells[g * doorbell_stride]
  std::int64_t doorbell_stride = 0;
  const std::byte* y = nullptr;  // row r of a group: (first_row * max_out + r * out) elements in
  const float* v = nullptr;      // the same with v_row and rank_columns, of which max_v at most
  const std::uint64_t* done =
      nullptr;  // worker slot w's, of group g: done[w * worker_slot_stride + g]
  std::int64_t worker_slot_stride = 0;
  std::int64_t max_in = 0, max_out = 0, max_v = 0, v_row = 0;
};

// What the device itself remembers of the handoff, zero at first: in device memory, of ranks in
// what Communicator::allocate_words gave the first.
struct HandoffState {
  std::uint32_t broken[kMaxMailboxes];  // 1: a deadline passed; offers are void until it is zeroed
};

// What of a job differs from step to step. In device memory, where copies and uploads alone write
// it: a recording of an offer and its accept serves every step.
struct HandoffTurn {
  std::uint64_t sequence = 0;    // rises from offer to offer; no stream meets one twice
  std::uint64_t cpu_groups = 0;  // masks over the groups (OfferArgs)
  std::uint64_t xa_groups = 0;
  // Masks over the groups: whose adapter has module m in this layer. A module's columns of y hold
  // nothing otherwise, and the table may not tell yet: its rows travel with the load.
  std::uint64_t adapted[LoraModules::kMaxModules] = {};
  std::int32_t num_groups = 0;  // up to HandoffJob::max_groups
  std::int32_t zero = 0;        // fills the gap
};

// What an offer and the accept that follows it have in common.
struct HandoffJob {
  const HandoffTurn* turn;
  const std::int32_t* rows;     // as in LoraArgs
  const LoraSegment* segments;  // the step's, not the live ones
  const ColdGroup* groups;      // [max_groups], device memory; the turn's num_groups are read
  std::int32_t max_groups;      // 1 .. kMaxColdGroups: a bound
  std::int32_t max_count;       // most rows of any group, or a bound
  std::uint32_t* tickets;       // [max_groups] of Ticket, device memory; the turn's are written
  // When the offer gave the first group its ticket: nanoseconds of a clock of the device's own,
  // device memory. Null: nobody asks.
  std::uint64_t* time = nullptr;
  HandoffState* state;  // read by the offer, written by the accept
  MailboxView mailboxes[kMaxMailboxes];
  // Of ranks that share the model: all offer and accept the same jobs, with one `state`. Null: one
  // device.
  Communicator* communicator = nullptr;
};

// For every group, one ticket:
//   gpu     when the group is in neither mask: the stream has waited for its weights;
//           or ready[slot * slot_stride + a and b] both hold its generation
//   voided  when its mailbox is broken
//   cpu_xa  when it is in xa_groups and B's ready word holds its generation
//   cpu     else, if it is in cpu_groups; a group in xa_groups alone, whose B is not there: voided
// With cpu and cpu_xa its rows of x go to the mailbox. Then, in every case, the group's doorbell is
// rung: released, at system scope, after its rows. live[s] = segments[s], with count 0 where a
// group's ticket is not gpu. Weights that a gpu ticket found ready are visible to later operations
// of the stream.
//
// Of several ranks each shows the others what it knows, and all give the ticket that follows from
// it: a word is ready when it is on all of them. x is the same on all, and the first one's goes to
// the mailbox; or each has its columns of it (`x_is_part`), which go there side by side. The first
// rings.
struct OfferArgs : HandoffJob {
  TensorView x;  // [T, in], compute dtype
  bool x_is_part = false;
  std::uint32_t* shown = nullptr;  // [2][kMaxColdGroups], of Communicator::allocate_words
  std::int32_t num_segments;
  LoraSegment* live;           // [num_segments]
  const std::uint32_t* ready;  // [slots][slot_stride], offset to the layer's words: A's, then B's
  std::int64_t slot_stride;
};

// The answers to the offer before, for groups whose ticket is cpu or cpu_xa: waits until all the
// group's workers have answered (done == sequence), then
//   cpu     out[m][t] += y[t, column of m ..], modules m that the adapter has
//   cpu_xa  out[m][t] += v[t, ranks of m] B^T, (A, B) = table[slot * slot_stride + m]
// A group whose answers have not come `deadline_us` after the operation began, or whose mailbox is
// broken by then, has timed out: timed_out[g] = 1, nothing of it is added, state->broken[mailbox]
// = 1. A group whose ticket is voided is void too; that breaks no mailbox. No wait is longer,
// whatever a worker writes.
//
// Of several ranks each adds its columns of y, or v times its rows of B; of a product whose parts
// are added up (`is_sum`) the first adds all. What is void on one of them is void.
struct AcceptArgs : HandoffJob, LoraModules {
  bool is_sum = false;
  DType dtype = DType::bf16;  // of y and the weights
  std::uint32_t deadline_us;
  std::uint32_t* timed_out;  // [max_groups], device memory; set, never cleared
  bool any_xa;  // some group may have a cpu_xa ticket, in this step or, recorded, in any
};

// How one row's token is chosen. Steps, in order: logit bias, repetition penalty (over prompt and
// output, as the Hugging Face one), presence and frequency penalties (over the output), then
// argmax if temperature is 0; else softmax(logits / temperature) cut to top_k, top_p and min_p, and
// a draw by a counter-based generator of (seed, position, token id) alone, whatever else is in the
// batch. Ties go to the lower id. Log probabilities are of the model's own logits, before this. A
// mask comes before everything: what it forbids has a logit of -infinity, for the log
// probabilities, too. A forced token's row looks at no mask.
struct SampleRow {
  float temperature = 0;
  float top_p = 1;
  float min_p = 0;
  std::int32_t top_k = 0;  // 0: all
  float repetition_penalty = 1;
  float presence_penalty = 0;
  float frequency_penalty = 0;
  std::int32_t num_logprobs = -1;  // -1: none; k: the chosen token's and the k best
  std::int32_t forced_token = -1;  // >= 0: do not sample, report this token's log probability
  std::int32_t history = 0;        // first index in SampleArgs::history
  std::int32_t prompt_len = 0;     // history holds the prompt, then the output
  std::int32_t history_len = 0;    // 0 when no penalty is set
  std::int32_t bias = 0;           // first index in SampleArgs::biases
  std::int32_t num_biases = 0;
  std::int32_t mask = -1;  // which of SampleArgs::masks; -1: none
  std::int32_t zero = 0;   // fills the gap: rows are written into recordings as they lie
  std::uint64_t seed = 0;
  std::uint64_t position = 0;  // of the token to be drawn, in its sequence
};

// Added to the logit; -infinity bans the token.
struct TokenBias {
  std::int32_t token;
  float bias;
};

struct SampledToken {
  static constexpr int kMaxLogprobs = 20;
  std::int32_t token = -1;
  float logprob = 0;      // set when num_logprobs >= 0 or the token was forced
  std::int32_t rank = 0;  // 1: the most likely token; set when num_logprobs >= 0
  // Entries below, most likely first, ties by lower id; where a mask has left fewer, fewer.
  std::int32_t num_top = 0;
  std::int32_t top_tokens[kMaxLogprobs] = {};
  float top_logprobs[kMaxLogprobs] = {};
};

// Words of a mask of tokens: bit i % 32 of word i / 32 says that token i may be drawn.
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
