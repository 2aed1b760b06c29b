// Limits of the machine, measured in the same run as the figures that are compared with them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "base/dtype.h"
#include "base/status.h"

namespace tandem {

// Reads or copies memory that is in no cache, with as many threads as the device uses, pinned to
// the same cores (`cpus` empty: not pinned).
class MemorySpeed {
 public:
  // Allocates `bytes`, written once by the threads that will read them.
  static Result<std::unique_ptr<MemorySpeed>> create(std::size_t bytes, int num_threads,
                                                     std::vector<int> cpus);
  // Bytes per second of one pass over the memory by the first `num_threads` threads; 0: by all.
  double read_pass(int num_threads = 0);
  // Copies the second half of every chunk to the first; bytes copied (counted once) per second.
  double copy_pass();

 private:
  MemorySpeed() = default;
  template <typename F>
  double pass(int num_threads, F&& work);

  struct Free {
    void operator()(std::uint64_t* words) const { std::free(words); }
  };
  std::unique_ptr<std::uint64_t[], Free> words_;
  std::size_t num_words_ = 0;
  int num_threads_ = 1;
  std::vector<int> cpus_;
  std::uint64_t checksum_ = 0;  // uses the sums, so that the compiler keeps the reads
};

// y = x w^T by oneDNN at its fastest: weights in its preferred format, and `num_threads` threads of
// its own. Measures FLOP/s of one call, m x k times k x n.
class OnednnPeak {
 public:
  // unavailable: oneDNN has no product of this type on this CPU.
  static Result<std::unique_ptr<OnednnPeak>> create(DType dtype, std::int64_t m, std::int64_t n,
                                                    std::int64_t k, int num_threads);
  ~OnednnPeak();
  Result<double> call();

 private:
  struct Impl;
  explicit OnednnPeak(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem
