#include "base/onednn/matmul.h"

#include <omp.h>

#include <list>
#include <mutex>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>
#include <utility>

#include "base/memory/aligned_bytes.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace tandem {
namespace {

using dnnl::memory;

struct Primitive {
  dnnl::matmul matmul;
  memory::desc x;
  memory::desc w;
  memory::desc y;
  std::size_t scratch_bytes = 0;
};

// One engine per process, because streams and primitives must belong to the same engine.
const dnnl::engine& cpu() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

Primitive make_primitive(const MatmulShape& shape) {
  const auto type = shape.dtype == DType::bf16 ? memory::data_type::bf16 : memory::data_type::f32;
  Primitive result;
  result.x = memory::desc({shape.m, shape.k}, type, memory::format_tag::ab);
  // The weights are [n, k]: oneDNN's k x n operand, columns contiguous.
  result.w = memory::desc({shape.k, shape.n}, type, memory::format_tag::ba);
  result.y = memory::desc({shape.m, shape.n}, memory::data_type::f32, memory::format_tag::ab);
  dnnl::primitive_attr attributes;
  // The library's own scratchpad would be shared by the threads that run one primitive.
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
#if DNNL_VERSION_MAJOR >= 3
  const dnnl::matmul::primitive_desc desc(cpu(), result.x, result.w, result.y, attributes);
#else
  const dnnl::matmul::primitive_desc desc(dnnl::matmul::desc(result.x, result.w, result.y),
                                          attributes, cpu());
#endif
  result.matmul = dnnl::matmul(desc);
  result.scratch_bytes = desc.scratchpad_desc().get_size();
  return result;
}

struct HashShape {
  std::size_t operator()(const MatmulShape& shape) const {
    std::uint64_t hash = static_cast<std::uint64_t>(shape.dtype);
    for (const std::int64_t part : {shape.m, shape.n, shape.k}) {
      hash = (hash ^ static_cast<std::uint64_t>(part)) * 0x9e3779b97f4a7c15U;
      hash ^= hash >> 29;
    }
    return hash;
  }
};

}  // namespace

struct MatmulScratch::Impl {
  dnnl::stream stream{cpu()};
  AlignedBytes bytes;
};

MatmulScratch::MatmulScratch() = default;
MatmulScratch::MatmulScratch(MatmulScratch&&) noexcept = default;
MatmulScratch& MatmulScratch::operator=(MatmulScratch&&) noexcept = default;
MatmulScratch::~MatmulScratch() = default;

struct MatmulCache::Impl {
  using Entry = std::pair<MatmulShape, std::shared_ptr<const Primitive>>;

  std::mutex mutex;         // guards the fields below
  std::list<Entry> by_age;  // most recently used first
  std::unordered_map<MatmulShape, std::list<Entry>::iterator, HashShape> by_shape;

  std::shared_ptr<const Primitive> find_or_make(const MatmulShape& shape) {
    const std::lock_guard lock(mutex);
    if (const auto found = by_shape.find(shape); found != by_shape.end()) {
      by_age.splice(by_age.begin(), by_age, found->second);
      return found->second->second;
    }
    by_age.emplace_front(shape, std::make_shared<const Primitive>(make_primitive(shape)));
    by_shape.emplace(shape, by_age.begin());
    auto made = by_age.front().second;
    if (by_age.size() > kMaxEntries) {
      by_shape.erase(by_age.back().first);
      by_age.pop_back();
    }
    return made;
  }
};

MatmulCache::MatmulCache() : impl_(std::make_unique<Impl>()) {}
MatmulCache::~MatmulCache() = default;

void MatmulCache::run(const MatmulShape& shape, const void* x, const void* w, float* y,
                      MatmulScratch& scratch) {
  const std::shared_ptr<const Primitive> primitive = impl_->find_or_make(shape);
  if (scratch.impl_ == nullptr) scratch.impl_ = std::make_unique<MatmulScratch::Impl>();
  auto& [stream, bytes] = *scratch.impl_;
  const memory::desc scratch_desc({static_cast<memory::dim>(primitive->scratch_bytes)},
                                  memory::data_type::u8, memory::format_tag::a);
  primitive->matmul.execute(
      stream, {{DNNL_ARG_SRC, memory(primitive->x, cpu(), const_cast<void*>(x))},
               {DNNL_ARG_WEIGHTS, memory(primitive->w, cpu(), const_cast<void*>(w))},
               {DNNL_ARG_DST, memory(primitive->y, cpu(), y)},
               {DNNL_ARG_SCRATCHPAD,
                memory(scratch_desc, cpu(), bytes.get(primitive->scratch_bytes + 64))}});
  stream.wait();
}

void use_one_thread() {
  omp_set_num_threads(1);
}

bool has_fast_bf16_matmul() {
#if defined(__x86_64__)
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  constexpr unsigned kAmxBf16 = 1U << 22;
  return (edx & kAmxBf16) != 0;
#else
  return false;
#endif
}

}  // namespace tandem
