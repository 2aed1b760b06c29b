// Memory for what Asio allocates on the way of a handler, so that no handler is lost where there is
// none left: what somebody waits for arrives, or his connection closes.
#pragma once

#include <array>
#include <atomic>
#include <boost/asio/post.hpp>
#include <chrono>
#include <cstddef>
#include <memory>
#include <new>
#include <thread>
#include <utility>

namespace tandem {

// Blocks for the few handlers of one connection that are on their way at once: each takes one while
// it waits, and two when it is due, in the strand's queue and in the loop's. Thread-safe.
class HandlerMemory {
 public:
  static constexpr std::size_t kBlockBytes = 208;

  void* take(std::size_t bytes) noexcept {
    if (bytes > kBlockBytes) return nullptr;
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      // acquire: pairs with the release of who had the block before
      if (!taken_[i].exchange(true, std::memory_order_acquire)) return blocks_[i].bytes;
    }
    return nullptr;
  }
  // False: it is none of these blocks.
  bool give_back(void* block) noexcept {
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      if (blocks_[i].bytes != block) continue;
      taken_[i].store(false, std::memory_order_release);  // pairs with take()
      return true;
    }
    return false;
  }

 private:
  static constexpr std::size_t kBlocks = 12;
  struct alignas(std::max_align_t) Block {
    std::byte bytes[kBlockBytes];
  };
  std::array<std::atomic<bool>, kBlocks> taken_{};
  std::array<Block, kBlocks> blocks_;
};

// Asio's operations hold a copy, and so the memory, until they have given it back. When all blocks
// are taken, or too small, the heap is asked.
template <typename T>
class HandlerAllocator {
 public:
  using value_type = T;

  explicit HandlerAllocator(std::shared_ptr<HandlerMemory> memory) : memory_(std::move(memory)) {}
  template <typename Other>
  HandlerAllocator(const HandlerAllocator<Other>& other)  // NOLINT: implicit, as allocators are
      : memory_(other.memory()) {}

  T* allocate(std::size_t count) {
    void* const block = memory_->take(count * sizeof(T));
    return static_cast<T*>(block != nullptr ? block : ::operator new(count * sizeof(T)));
  }
  void deallocate(T* block, std::size_t) noexcept {
    if (!memory_->give_back(block)) ::operator delete(block);
  }
  const std::shared_ptr<HandlerMemory>& memory() const { return memory_; }

  template <typename Other>
  bool operator==(const HandlerAllocator<Other>& other) const {
    return memory_ == other.memory();
  }

 private:
  std::shared_ptr<HandlerMemory> memory_;
};

// The handler, as Asio finds its memory with it.
template <typename Handler>
class WithMemory {
 public:
  using allocator_type = HandlerAllocator<std::byte>;

  WithMemory(std::shared_ptr<HandlerMemory> memory, Handler handler)
      : memory_(std::move(memory)), handler_(std::move(handler)) {}
  allocator_type get_allocator() const noexcept { return allocator_type(memory_); }
  template <typename... Args>
  void operator()(Args&&... args) {
    handler_(std::forward<Args>(args)...);
  }

 private:
  std::shared_ptr<HandlerMemory> memory_;
  Handler handler_;
};

// Runs `step` on the executor, whoever waits for it: the memory suffices, as a rule; where it does
// not and the heap has none, that is waited out, for so long. False: in vain.
template <typename Executor, typename Step>
bool post_surely(const Executor& executor, const std::shared_ptr<HandlerMemory>& memory,
                 const Step& step) noexcept {
  constexpr int kTries = 1000;
  for (int i = 0; i < kTries; ++i) {
    try {
      boost::asio::post(executor, WithMemory(memory, step));
      return true;
    } catch (const std::bad_alloc&) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  return false;
}

}  // namespace tandem
