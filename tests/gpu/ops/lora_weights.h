// Weights of many adapters, for tests of operations that read them.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "tests/gpu/ops/ops_fixture.h"

namespace tandem {

class LoraTest : public OpsTest {
 protected:
  static std::uint64_t address(const TensorView& view) {
    return reinterpret_cast<std::uint64_t>(view.data);
  }

  // The weights of all slots: each matrix in its own memory, or each slot's matrices one after
  // another, cut into chunks that lie anywhere in a pool.
  struct Weights {
    std::deque<TestTensor> tensors;
    std::vector<LoraMatrix> host_table;
    std::vector<LoraMatrix> device_table;
    std::int32_t max_rank = 0;
    LoraPages host_pages;
    LoraPages device_pages;
    std::vector<std::byte> pool;
    Buffer device_pool;
    std::optional<TestArray<std::int32_t>> ids;
  };

  // ranks[slot][module] of modules [outputs[module], in]; appends to what is there. With `biases`
  // every other slot has some.
  void make_weights(DType dtype, std::int64_t in, const std::vector<std::int64_t>& outputs,
                    const std::vector<std::vector<std::int32_t>>& ranks, Weights& weights,
                    bool biases = false);
  // Rows of each slot's own, `width` wide, for tokens[slot], ascending (LoraPart::tokens).
  void make_token_rows(DType dtype, std::int64_t width,
                       const std::vector<std::vector<std::int32_t>>& tokens, Weights& weights);
  // A vector of each length of each slot's own; has[slot][vector].
  void make_vectors(DType dtype, const std::vector<std::int64_t>& lengths,
                    const std::vector<std::vector<bool>>& has, Weights& weights);
  // Moves the weights from make_weights into chunks of 2^shift bytes. Unused bytes are NaN.
  void scatter_weights(std::size_t modules, std::int32_t shift, Weights& weights);
};

}  // namespace tandem
