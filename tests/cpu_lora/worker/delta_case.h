// A group's job with random weights and rows, and its expected delta.
#pragma once

#include <array>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/lora_rows.h"
#include "shm/mailbox.h"

namespace tandem {

struct DeltaSizes {
  std::uint32_t rows = 1;
  std::uint32_t in = 64;
  std::vector<std::uint32_t> ranks = {8};  // 0: the module is not adapted
  std::vector<std::uint32_t> outs = {64};
  bool biases = false;
};

// The expected values are computed in double from inputs rounded to the dtype.
class DeltaCase {
 public:
  DeltaCase(const DeltaSizes& sizes, DType dtype, unsigned seed)
      : sizes_(sizes), dtype_(dtype), random_(seed) {
    GroupJob& job = job_;
    job.rows = sizes.rows;
    job.in = sizes.in;
    job.num_modules = static_cast<std::uint32_t>(sizes.ranks.size());
    x_ = fill(std::uint64_t{sizes.rows} * sizes.in, 1.0F);
    for (std::size_t m = 0; m < sizes.ranks.size(); ++m) {
      JobMatrix& matrix = job.modules[m];
      matrix.out = sizes.outs[m];
      matrix.column = job.out;
      job.out += matrix.out;
      matrix.rank = sizes.ranks[m];
      if (matrix.rank == 0) continue;
      matrix.b_stride = sizes.biases
                            ? static_cast<std::uint32_t>(lora_row(matrix.rank, true, dtype))
                            : (matrix.rank + 7) / 8 * 8;
      job.rank_columns += matrix.rank;
      matrix.a = place(fill(std::uint64_t{matrix.rank} * sizes.in,
                            1.0F / std::sqrt(static_cast<float>(sizes.in))));
      std::vector<float> b(std::uint64_t{matrix.out} * matrix.b_stride);
      for (std::uint32_t o = 0; o < matrix.out; ++o) {
        for (std::uint32_t r = 0; r < matrix.rank; ++r) b[o * matrix.b_stride + r] = number(1.0F);
        if (sizes.biases) b[o * matrix.b_stride + bias_of(matrix)] = number(1.0F);
      }
      matrix.b = place(b);
    }
  }

  GroupJob job(std::uint64_t workers, JobSplit split) const {
    GroupJob out = job_;
    out.workers = workers;
    out.split = split;
    return out;
  }
  const std::vector<std::byte>& arena() const { return arena_; }
  std::vector<std::byte> x() const { return stored(x_); }
  DType dtype() const { return dtype_; }

  // Returns the first error in the bytes of y [rows, out], or an empty text. The columns of modules
  // that are not adapted must still be `poison`.
  std::string check_y(const std::byte* y, std::byte poison) const {
    for (std::uint32_t m = 0; m < job_.num_modules; ++m) {
      const JobMatrix& matrix = job_.modules[m];
      const std::vector<float> b =
          matrix.rank == 0 ? std::vector<float>()
                           : read(matrix.b, std::uint64_t{matrix.out} * matrix.b_stride);
      const std::vector<double> v = shrunk(m);
      for (std::uint32_t t = 0; t < job_.rows; ++t) {
        for (std::uint32_t o = 0; o < matrix.out; ++o) {
          const std::size_t at =
              (std::uint64_t{t} * job_.out + matrix.column + o) * size_of(dtype_);
          if (matrix.rank == 0) {
            for (std::size_t i = 0; i < size_of(dtype_); ++i) {
              if (y[at + i] != poison)
                return fmt::format("row {} column {} of module {}: written", t, o, m);
            }
            continue;
          }
          double sum = 0;
          double size = 0;
          if (sizes_.biases) {
            sum = b[o * matrix.b_stride + bias_of(matrix)];
            size = std::abs(sum);
          }
          for (std::uint32_t r = 0; r < matrix.rank; ++r) {
            const double part = v[t * matrix.rank + r] * b[o * matrix.b_stride + r];
            sum += part;
            size += std::abs(part);
          }
          float got = 0;
          convert(dtype_, y + at, DType::f32, &got, 1);
          // v and y are each rounded to the dtype once.
          const double bound = (size + std::abs(sum)) * epsilon() + 1e-4 * size + 1e-6;
          if (!(std::abs(got - sum) <= bound)) {
            return fmt::format("row {} column {} of module {}: {} instead of {} +- {}", t, o, m,
                               got, sum, bound);
          }
        }
      }
    }
    return {};
  }
  std::string check_v(const float* v) const {
    std::uint32_t column = 0;
    for (std::uint32_t m = 0; m < job_.num_modules; ++m) {
      const std::vector<double> expected = shrunk(m);
      const std::uint32_t rank = job_.modules[m].rank;
      for (std::uint32_t t = 0; t < job_.rows; ++t) {
        for (std::uint32_t r = 0; r < rank; ++r) {
          const double want = expected[t * rank + r];
          const double got = v[std::uint64_t{t} * job_.rank_columns + column + r];
          if (!(std::abs(got - want) <= 1e-4 * (1 + std::abs(want)))) {
            return fmt::format("row {} rank {} of module {}: {} instead of {}", t, r, m, got, want);
          }
        }
      }
      column += rank;
    }
    return {};
  }

 private:
  std::size_t bias_of(const JobMatrix& matrix) const {
    return static_cast<std::size_t>(lora_inner(matrix.rank, matrix.b_stride, dtype_) - 1);
  }
  double epsilon() const {
    switch (dtype_) {
      case DType::bf16:
        return 1.0 / 256;
      case DType::f16:
        return 1.0 / 2048;
      default:
        return 1e-5;
    }
  }
  float rounded(float value) const {
    std::byte bytes[4];
    convert(DType::f32, &value, dtype_, bytes, 1);
    convert(dtype_, bytes, DType::f32, &value, 1);
    return value;
  }
  float number(float scale) {
    return rounded(std::uniform_real_distribution<float>(-scale, scale)(random_));
  }
  std::vector<float> fill(std::uint64_t count, float scale) {
    std::vector<float> out(count);
    for (float& value : out) value = number(scale);
    return out;
  }
  std::vector<std::byte> stored(const std::vector<float>& values) const {
    std::vector<std::byte> out(values.size() * size_of(dtype_));
    convert(DType::f32, values.data(), dtype_, out.data(), values.size());
    return out;
  }
  std::vector<float> read(std::uint64_t offset, std::uint64_t count) const {
    std::vector<float> out(count);
    convert(dtype_, arena_.data() + offset, DType::f32, out.data(), count);
    return out;
  }
  std::uint64_t place(const std::vector<float>& values) {
    const std::uint64_t offset = (arena_.size() + 63) / 64 * 64;
    const std::vector<std::byte> bytes = stored(values);
    arena_.resize(offset + bytes.size());
    std::memcpy(arena_.data() + offset, bytes.data(), bytes.size());
    return offset;
  }
  // x A^T of a module: [rows, rank]
  std::vector<double> shrunk(std::uint32_t m) const {
    const JobMatrix& matrix = job_.modules[m];
    std::vector<double> v(std::uint64_t{job_.rows} * matrix.rank);
    if (v.empty()) return v;
    const std::vector<float> a = read(matrix.a, std::uint64_t{matrix.rank} * job_.in);
    for (std::uint32_t t = 0; t < job_.rows; ++t) {
      for (std::uint32_t r = 0; r < matrix.rank; ++r) {
        double sum = 0;
        for (std::uint32_t i = 0; i < job_.in; ++i) {
          sum += double{x_[std::uint64_t{t} * job_.in + i]} * a[std::uint64_t{r} * job_.in + i];
        }
        v[std::uint64_t{t} * matrix.rank + r] = sum;
      }
    }
    return v;
  }

  DeltaSizes sizes_;
  DType dtype_;
  std::mt19937 random_;
  GroupJob job_;
  std::vector<float> x_;
  std::vector<std::byte> arena_;
};

}  // namespace tandem
