// Packed matrices of random numbers, for tests of products by them.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "gpu/device.h"
#include "gpu/weight.h"

namespace tandem {

struct NamedForm {
  std::string name;  // of the format on disk that has this form
  WeightForm form;
};
// The forms of the formats that are served, each at the group sizes that they come with: GPTQ and
// AWQ (4 and 8 bits), compressed-tensors, FP8 by channel and by block, bitsandbytes with and
// without nested scales, MXFP4, and GGUF's blocks.
std::vector<NamedForm> served_forms();

// A packed matrix in host memory and its copy on the device.
class TestWeight {
 public:
  // Codes are uniform, and the numbers of a row have a variance of about 1 / cols. `ordered`: its
  // columns have an order of their own.
  TestWeight(Device& device, Stream& stream, std::mt19937_64& random, const WeightForm& form,
             std::int64_t rows, std::int64_t cols, bool ordered = false);

  const Weight& host() const { return host_; }
  const Weight& on_device() const { return device_; }

 private:
  std::vector<std::byte> bytes_;
  Buffer buffer_;
  Weight host_, device_;
};

}  // namespace tandem
