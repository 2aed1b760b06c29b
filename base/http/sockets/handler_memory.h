// Memory for Asio's allocations for a handler, so that no handler is lost when memory runs out: the
// awaited event arrives, or the connection closes.
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

// Blocks for the few handlers of one connection that are pending together: each uses one while it
// waits, and two when it is due, in the strand's queue and the loop's. Thread-safe.
class HandlerMemory {
 public:
  static constexpr std::size_t kBlockBytes = 208;

  void* take(std::size_t bytes) noexcept {
    if (bytes > kBlockBytes) return nullptr;
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      // acquire: pairs with the release by the block's previous owner
      if (!taken_[i].exchange(true, std::memory_order_acquire)) return blocks_[i].bytes;
    }
    return nullptr;
  }
  // False if it is none of these blocks.
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

// Asio's operations hold a copy, and so the memory, until they have returned it. If all blocks are
// taken or too small, the heap is used.
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

// A handler, in the form in which Asio finds its memory.
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

// Runs `step` on the executor. The blocks normally suffice; if they do not and the heap is empty
// too, retries for a limited time. False: it did not succeed.
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
