#include "tests/gpu/ops/lora_weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "base/lora_rows.h"

namespace tandem {

void LoraTest::make_weights(DType dtype, std::int64_t in, const std::vector<std::int64_t>& outputs,
                            const std::vector<std::vector<std::int32_t>>& ranks, Weights& weights,
                            bool biases) {
  for (const auto& slot : ranks) {
    const bool has_bias = biases && (&slot - ranks.data()) % 2 == 0;
    for (std::size_t m = 0; m < outputs.size(); ++m) {
      const std::int32_t rank = slot[m];
      const std::int32_t stride = has_bias && rank > 0
                                      ? static_cast<std::int32_t>(lora_row(rank, true, dtype))
                                      : (rank + 7) / 8 * 8;
      const std::int64_t bias =
          has_bias ? lora_inner(rank, stride, dtype) - 1 : std::int64_t{stride};
      const TestTensor& a = weights.tensors.emplace_back(
          tensor(dtype, {rank, in}, 1 / std::sqrt(static_cast<float>(in))));
      TestTensor& b = weights.tensors.emplace_back(tensor(dtype, {outputs[m], stride}, 0.3F));
      for (std::int64_t o = 0; o < b.host().rows(); ++o) {
        for (std::int64_t j = rank; j < stride; ++j) {
          if (j != bias) reference::put(b.host(), 0, o, j);
        }
      }
      b.upload(*stream_);
      weights.host_table.push_back({address(a.host()), address(b.host()), rank, stride});
      weights.device_table.push_back(
          {address(a.on_device()), address(b.on_device()), rank, stride});
      weights.max_rank = std::max(weights.max_rank, rank);
    }
  }
}

void LoraTest::make_token_rows(DType dtype, std::int64_t width,
                               const std::vector<std::vector<std::int32_t>>& tokens,
                               Weights& weights) {
  for (const std::vector<std::int32_t>& ids : tokens) {
    const auto count = static_cast<std::int32_t>(ids.size());
    const TestTensor& a = weights.tensors.emplace_back(tensor(dtype, {count, width}, 0.3F));
    const std::int64_t row = token_ids_row(count, dtype);
    TestTensor& b = weights.tensors.emplace_back(tensor(dtype, {1, row}));
    if (count > 0) std::memcpy(b.host().data, ids.data(), ids.size() * sizeof(std::int32_t));
    b.upload(*stream_);
    const auto stride = static_cast<std::int32_t>(row);
    weights.host_table.push_back({address(a.host()), address(b.host()), count, stride});
    weights.device_table.push_back({address(a.on_device()), address(b.on_device()), count, stride});
    weights.max_rank = std::max(weights.max_rank, 1);  // as for whole weights
  }
}

void LoraTest::make_vectors(DType dtype, const std::vector<std::int64_t>& lengths,
                            const std::vector<std::vector<bool>>& has, Weights& weights) {
  for (const std::vector<bool>& slot : has) {
    for (std::size_t m = 0; m < lengths.size(); ++m) {
      const TestTensor& a = weights.tensors.emplace_back(tensor(dtype, {0, 1}));
      const TestTensor& b = weights.tensors.emplace_back(tensor(DType::f32, {1, lengths[m]}));
      const std::int32_t rank = slot[m] ? 1 : 0;
      const auto stride = static_cast<std::int32_t>(vector_row(dtype));
      weights.host_table.push_back({address(a.host()), address(b.host()), rank, stride});
      weights.device_table.push_back(
          {address(a.on_device()), address(b.on_device()), rank, stride});
      weights.max_rank = std::max(weights.max_rank, rank);
    }
  }
}

void LoraTest::scatter_weights(std::size_t modules, std::int32_t shift, Weights& weights) {
  const std::size_t slots = weights.host_table.size() / modules;
  std::vector<std::vector<std::byte>> runs(slots);
  for (std::size_t i = 0; i < weights.tensors.size(); ++i) {
    std::vector<std::byte>& run = runs[i / 2 / modules];
    const TensorView& view = weights.tensors[i].host();
    LoraMatrix& matrix = weights.host_table[i / 2];
    (i % 2 == 0 ? matrix.a : matrix.b) = run.size();
    const auto bytes = static_cast<std::size_t>(view.num_elements()) * size_of(view.dtype);
    const std::size_t begin = run.size();
    run.resize(begin + (bytes + 63) / 64 * 64, std::byte{0xFF});
    if (bytes > 0) std::memcpy(run.data() + begin, view.data, bytes);
  }
  const std::size_t chunk = std::size_t{1} << shift;
  std::size_t most = 1;
  std::size_t total = 2;  // includes chunks of no slot
  for (const auto& run : runs) {
    const std::size_t chunks = (run.size() + chunk - 1) / chunk;
    most = std::max(most, chunks);
    total += chunks;
  }
  std::vector<std::int32_t> order(total);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random_);
  weights.pool.assign(total * chunk, std::byte{0xFF});
  std::vector<std::int32_t> ids(slots * most, -1);
  std::size_t next = 0;
  for (std::size_t s = 0; s < slots; ++s) {
    for (std::size_t c = 0; c * chunk < runs[s].size(); ++c) {
      const std::int32_t id = order[next++];
      ids[s * most + c] = id;
      std::memcpy(weights.pool.data() + static_cast<std::size_t>(id) * chunk,
                  runs[s].data() + c * chunk, std::min(chunk, runs[s].size() - c * chunk));
    }
  }
  weights.device_table = weights.host_table;
  weights.device_pool = std::move(device_->allocate(weights.pool.size(), "test pool")).value();
  stream_->copy_to_device(weights.device_pool.data(), weights.pool.data(), weights.pool.size());
  weights.ids.emplace(*device_, *stream_, ids);
  const auto stride = static_cast<std::int64_t>(most);
  weights.host_pages = {weights.pool.data(), weights.ids->host(), stride, shift};
  weights.device_pages = {weights.device_pool.data(), weights.ids->on_device(), stride, shift};
}

}  // namespace tandem
