// Models whose heads or columns cannot be divided equally over several devices are spread: they get
// heads and columns of zeros, which change no result, or several copies of each KV head, so that
// all devices have parts of one size. The checkpoint's tensors and the adapters' matrices are
// spread when they are read; everything behind sees a model that divides.
//
//   KV heads   fewer than devices: as many copies of each in a row as devices share it, and its
//              query heads are shared out over the copies; otherwise zeros at the end
//   heads      of each KV head or copy: its own, and zeros behind them
//   columns    of the feed-forward part: zeros at the end
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/model/spec/model_spec.h"

namespace tandem {

// Rows or columns [from, from + count) of a stored matrix become [to, to + count) of the spread
// one.
struct SpreadRun {
  std::int64_t from = 0;
  std::int64_t to = 0;
  std::int64_t count = 0;
  friend bool operator==(const SpreadRun&, const SpreadRun&) = default;
};
// By ascending `to`; what lies between the runs is zero. Empty: the matrix is as stored.
using SpreadRuns = std::vector<SpreadRun>;

// In elements: a device's part of a projection is a multiple of it, so that rows of A and of x are
// aligned for vector loads.
constexpr std::int64_t kShardAlignment = 8;

// Returns the model spread over `num_devices` devices; itself if it divides.
ModelSpec spread_over(const ModelSpec& spec, std::int32_t num_devices);

// In heads, and in KV heads.
SpreadRuns spread_of_heads(const AttentionSpec& attention);
SpreadRuns spread_of_kv_heads(const AttentionSpec& attention);
// In columns.
SpreadRuns spread_of_queries(const AttentionSpec& attention);
SpreadRuns spread_of_keys(const AttentionSpec& attention);
// Columns of queries and of keys that all devices together have, zeros left out; keys of a KV head
// with copies count once for each copy. `part`: the attention of one of the devices.
std::int64_t queries_of_all(const AttentionSpec& part, std::int64_t num_devices);
std::int64_t keys_of_all(const AttentionSpec& part, std::int64_t num_devices);
SpreadRuns spread_of_mlp(const MlpSpec& mlp);

// The runs that fall into [first, first + count) of the spread matrix, with `to` counted from
// there.
SpreadRuns cut_spread(const SpreadRuns& spread, std::int64_t first, std::int64_t count);

// Copies the runs of one row, whose elements have `element_bytes`; what lies between them in `to`
// stays.
void copy_spread(const SpreadRuns& spread, std::size_t element_bytes, const std::byte* from,
                 std::byte* to);

// One side of a module's matrices in a layer.
struct ModuleSide {
  std::int64_t stored = 0;  // columns in the checkpoint and in adapters' files
  SpreadRuns spread;        // into module_in() or module_out() columns, or those of a whole matrix
};
ModuleSide input_of_module(const ModelSpec& spec, std::int64_t layer, std::size_t module);
ModuleSide output_of_module(const ModelSpec& spec, std::int64_t layer, std::size_t module);

}  // namespace tandem
