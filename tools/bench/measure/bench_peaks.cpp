#include "tools/bench/measure/bench_peaks.h"

#include <omp.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <oneapi/dnnl/dnnl.hpp>
#include <random>
#include <thread>
#include <unordered_map>

#include "base/clock.h"
#include "base/threads/thread_cpus.h"

namespace tandem {
namespace {

// Words that a thread takes at a time: 1 MiB, a multiple of what sum_streams needs.
constexpr std::size_t kChunkWords = 131072;

// Eight words at once: one AVX-512 register, two of AVX2, or four of the baseline.
using Words = std::uint64_t __attribute__((vector_size(64)));

// Sums four streams side by side, so that enough loads are outstanding to fill the memory's queue.
// `count` is a number of words, a multiple of 32.
[[gnu::always_inline]] inline std::uint64_t sum_streams(const std::uint64_t* words,
                                                        std::size_t count) {
  const std::size_t steps = count / 32;
  const auto* stream = reinterpret_cast<const Words*>(words);
  Words a{};
  Words b{};
  Words c{};
  Words d{};
  for (std::size_t i = 0; i < steps; ++i) {
    a += stream[i];
    b += stream[steps + i];
    c += stream[2 * steps + i];
    d += stream[3 * steps + i];
  }
  a += b + c + d;
  std::uint64_t total = 0;
  for (int lane = 0; lane < 8; ++lane) total += a[lane];
  return total;
}

#if defined(__x86_64__)
[[gnu::target("avx512f")]] std::uint64_t sum_avx512(const std::uint64_t* words, std::size_t count) {
  return sum_streams(words, count);
}
[[gnu::target("avx2")]] std::uint64_t sum_avx2(const std::uint64_t* words, std::size_t count) {
  return sum_streams(words, count);
}
#endif

std::uint64_t sum_of(const std::uint64_t* words, std::size_t count) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return sum_avx512(words, count);
  if (__builtin_cpu_supports("avx2")) return sum_avx2(words, count);
#endif
  return sum_streams(words, count);
}

}  // namespace

// Runs work(thread, first word, words) over chunks that the threads take one by one, as the
// device's threads do, so that a disturbed thread does not delay the rest. Returns bytes per
// second.
template <typename F>
double MemorySpeed::pass(int num_threads, F&& work) {
  const auto threads = static_cast<std::size_t>(num_threads);
  const std::size_t chunks = num_words_ / kChunkWords;
  std::atomic<std::size_t> next{0};
  std::barrier<> line(static_cast<std::ptrdiff_t>(threads) + 1);
  std::vector<std::thread> workers;
  workers.reserve(threads);
  for (std::size_t t = 0; t < threads; ++t) {
    workers.emplace_back([&, t] {
      if (!cpus_.empty()) pin_this_thread({&cpus_[t % cpus_.size()], 1}, "a measuring thread");
      line.arrive_and_wait();
      // relaxed: the counter hands out chunks and nothing else; the barrier orders the data
      for (std::size_t chunk = 0;
           (chunk = next.fetch_add(1, std::memory_order_relaxed)) < chunks;) {
        work(t, chunk * kChunkWords, kChunkWords);
      }
      line.arrive_and_wait();
    });
  }
  line.arrive_and_wait();
  const auto start = std::chrono::steady_clock::now();
  line.arrive_and_wait();
  const auto end = std::chrono::steady_clock::now();
  for (std::thread& worker : workers) worker.join();
  return static_cast<double>(chunks * kChunkWords * sizeof(std::uint64_t)) /
         seconds_between(start, end);
}

Result<std::unique_ptr<MemorySpeed>> MemorySpeed::create(std::size_t bytes, int num_threads,
                                                         std::vector<int> cpus) {
  std::unique_ptr<MemorySpeed> made(new MemorySpeed);
  made->num_threads_ = num_threads;
  made->cpus_ = std::move(cpus);
  made->num_words_ = bytes / sizeof(std::uint64_t) / kChunkWords * kChunkWords;
  // Not zeroed here, because a page belongs to the node of the thread that touches it first.
  made->words_.reset(static_cast<std::uint64_t*>(
      std::aligned_alloc(64, made->num_words_ * sizeof(std::uint64_t))));
  if (made->words_ == nullptr) {
    return error(StatusCode::resource_exhausted, "no {} bytes to measure the memory with", bytes);
  }
  std::uint64_t* words = made->words_.get();
  made->pass(num_threads, [words](std::size_t, std::size_t first, std::size_t count) {
    std::mt19937_64 random(first);
    for (std::size_t i = 0; i < count; ++i) words[first + i] = random();
  });
  return made;
}

double MemorySpeed::read_pass(int num_threads) {
  std::vector<std::uint64_t> sums(static_cast<std::size_t>(num_threads_) * 8);  // a line per thread
  const std::uint64_t* words = words_.get();
  const int threads = num_threads > 0 ? num_threads : num_threads_;
  const double speed = pass(threads, [&](std::size_t thread, std::size_t first, std::size_t count) {
    sums[thread * 8] += sum_of(words + first, count);
  });
  for (const std::uint64_t sum : sums) checksum_ += sum;
  // Never zero for random words; the branch makes the sums observable.
  return checksum_ == 0 ? 0 : speed;
}

double MemorySpeed::copy_pass() {
  std::uint64_t* words = words_.get();
  return pass(num_threads_,
              [&](std::size_t, std::size_t first, std::size_t count) {
                std::memcpy(words + first, words + first + count / 2,
                            count / 2 * sizeof(std::uint64_t));
              }) /
         2;
}

struct OnednnPeak::Impl {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  dnnl::matmul primitive;
  std::unordered_map<int, dnnl::memory> arguments;
  double flops = 0;
  int num_threads = 1;
};

OnednnPeak::OnednnPeak(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
OnednnPeak::~OnednnPeak() = default;

Result<std::unique_ptr<OnednnPeak>> OnednnPeak::create(DType dtype, std::int64_t m, std::int64_t n,
                                                       std::int64_t k, int num_threads) {
  using Tag = dnnl::memory::format_tag;
  using Type = dnnl::memory::data_type;
  try {
    omp_set_num_threads(num_threads);
    auto impl = std::make_unique<Impl>();
    impl->num_threads = num_threads;
    impl->flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
    const Type type = dtype == DType::bf16 ? Type::bf16 : Type::f32;
    const dnnl::memory::desc source({m, k}, type, Tag::ab);
    const dnnl::memory::desc weights({k, n}, type, Tag::any);
    const dnnl::memory::desc target({m, n}, type, Tag::ab);
#if DNNL_VERSION_MAJOR >= 3
    const dnnl::matmul::primitive_desc plan(impl->engine, source, weights, target);
#else
    const dnnl::matmul::primitive_desc plan(dnnl::matmul::desc(source, weights, target),
                                            impl->engine);
#endif
    const auto fill = [&](const dnnl::memory::desc& desc) {
      dnnl::memory memory(desc, impl->engine);
      std::mt19937 random(1);
      auto* bytes = static_cast<std::uint8_t*>(memory.get_data_handle());
      const std::size_t size = desc.get_size();
      if (type == Type::bf16) {
        for (std::size_t i = 0; i + 2 <= size; i += 2) {
          const bf16 value = from_float<bf16>(static_cast<float>(random() % 2048) / 1024 - 1);
          std::memcpy(bytes + i, &value, 2);
        }
      } else {
        for (std::size_t i = 0; i + 4 <= size; i += 4) {
          const float value = static_cast<float>(random() % 2048) / 1024 - 1;
          std::memcpy(bytes + i, &value, 4);
        }
      }
      return memory;
    };
    impl->arguments.emplace(DNNL_ARG_SRC, fill(plan.src_desc()));
    impl->arguments.emplace(DNNL_ARG_WEIGHTS, fill(plan.weights_desc()));
    impl->arguments.emplace(DNNL_ARG_DST, dnnl::memory(plan.dst_desc(), impl->engine));
    impl->primitive = dnnl::matmul(plan);
    return std::unique_ptr<OnednnPeak>(new OnednnPeak(std::move(impl)));
  } catch (const dnnl::error& failure) {
    const bool has_none = failure.status == dnnl_unimplemented;
    return error(has_none ? StatusCode::unavailable : StatusCode::internal,
                 "oneDNN matmul of {} {}x{}x{}: {}", to_string(dtype), m, n, k, failure.what());
  } catch (const std::exception& failure) {
    return error(StatusCode::internal, "oneDNN matmul of {}x{}x{}: {}", m, n, k, failure.what());
  }
}

Result<double> OnednnPeak::call() {
  try {
    omp_set_num_threads(impl_->num_threads);
    const auto start = std::chrono::steady_clock::now();
    impl_->primitive.execute(impl_->stream, impl_->arguments);
    impl_->stream.wait();
    return impl_->flops / seconds_between(start, std::chrono::steady_clock::now());
  } catch (const std::exception& failure) {
    return error(StatusCode::internal, "oneDNN matmul: {}", failure.what());
  }
}

}  // namespace tandem
