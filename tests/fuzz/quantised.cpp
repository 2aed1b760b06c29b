// Input: a config.json, a zero byte, a file of safetensors. Every module is read as the config
// says, in several runs of rows, which have to agree.
#include "engine/loader/quantisation_scheme.h"
#include "engine/loader/quantised/packed_form.h"
#include "engine/loader/quantised/packed_matrix.h"

#include <cmath>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "base/check.h"
#include "engine/loader/safetensors/safetensors.h"
#include "tests/fuzz/memory_file.h"
#include "tests/fuzz/targets.h"
#include "tests/gpu/reference/packed_twin.h"
#include "tests/support/packed_memory.h"

namespace tandem::fuzz {
namespace {

// The form of devices has the same floats, but for a factor, which is multiplied in another order.
void check_form(const QuantisedMatrix& matrix, std::int64_t rows, std::int64_t cols) {
  const std::optional<PackedForm> packed = packed_form(matrix);
  if (!packed) return;
  const test::PackedMemory memory(*packed, rows, cols);
  pack(matrix, memory.weight().packed);
  if (packed->form.scales.factor != 1) return;
  std::vector<float> want(static_cast<std::size_t>(cols));
  for (std::int64_t row = 0; row < rows; ++row) {
    dequantise(matrix, row, 1, want.data());
    const std::vector<float> got = reference::row_of(memory.weight(), row);
    for (std::size_t i = 0; i < want.size(); ++i) {
      TANDEM_CHECK(got[i] == want[i] || std::isnan(want[i]), "row {}, column {}", row, i);
    }
  }
}

void read_module(const PackedMatrix& matrix, std::size_t most) {
  const std::int64_t rows = matrix.rows();
  const std::int64_t cols = matrix.cols();
  TANDEM_CHECK(rows > 0 && cols > 0);
  const auto elements = static_cast<std::size_t>(rows) * static_cast<std::size_t>(cols);
  // No format has less than half a byte for an element.
  TANDEM_CHECK(elements <= 2 * most, "{} elements of {} bytes", elements, most);
  const Result<QuantisedMatrix> whole = matrix.read(0, rows);
  std::vector<float> all(elements);
  if (whole) dequantise(*whole, 0, rows, all.data());
  std::vector<float> part(elements);
  bool all_read = true;
  const std::int64_t run = rows / 3 + 1;
  for (std::int64_t first = 0; first < rows; first += run) {
    const std::int64_t count = std::min(run, rows - first);
    const Result<QuantisedMatrix> read = matrix.read(first, count);
    all_read = all_read && read.ok();
    if (read) dequantise(*read, 0, count, part.data() + first * cols);
  }
  TANDEM_CHECK(all_read == whole.ok());
  if (whole) check_form(*whole, rows, cols);
  TANDEM_CHECK(!whole || std::memcmp(all.data(), part.data(), elements * sizeof(float)) == 0);
}

}  // namespace

void fuzz_quantised(Bytes bytes) {
  const auto [config, tensors] = split_text(text_of(bytes));
  const auto scheme = QuantisationScheme::read(config);
  if (!scheme || !*scheme) return;
  static const MemoryFile memory;
  memory.write(tensors);
  const Result<SafetensorsFile> file = SafetensorsFile::open(memory.path());
  if (!file) return;
  std::set<std::string_view> modules;
  for (const auto& [name, info] : file->header().tensors()) {
    const std::string_view text = name;
    modules.insert(text.substr(0, std::min(text.find(".weight"), text.rfind('.'))));
    if (text.ends_with("_blocks")) modules.insert(text.substr(0, text.size() - 7));
  }
  const auto find = [&](std::string_view name) -> std::optional<StoredTensor> {
    const TensorInfo* const info = file->find(name);
    if (info == nullptr) return std::nullopt;
    return StoredTensor{info->type_name, info->shape, file->bytes(*info)};
  };
  for (const std::string_view module : modules) {
    const auto decided = (*scheme)->of(module);
    if (!decided || !*decided) continue;
    const auto matrix = open_packed(**decided, {std::string(module), find});
    if (matrix) read_module(**matrix, bytes.size());
  }
}

}  // namespace tandem::fuzz
