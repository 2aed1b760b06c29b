// An engine whose workers compute with an adapter that the test sends byte by byte.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/file/file.h"
#include "engine/adapters/adapter_arrival.h"
#include "engine/loader/peft/peft_reader.h"
#include "engine/loader/weights.h"
#include "gpu/host/host_device.h"
#include "tests/support/in_process_pool.h"
#include "tests/support/peft_writer.h"
#include "tests/support/small_model.h"
#include "tests/support/test_engine.h"

namespace tandem::test {

inline constexpr std::chrono::seconds kPatience{20};
// Longer than any test delays a sender: even on a slow machine the reading is not given up.
inline constexpr std::chrono::seconds kLongestHeld{120};
inline const std::vector<std::string_view> kModules = {"q_proj", "v_proj", "o_proj", "down_proj"};

// Writes an adapter's files, as far as the test wants, into a folder that is being read.
class Sender {
 public:
  Sender(const std::string& from, const std::filesystem::path& to)
      : to_(to),
        weights_(*read_text_file(from + "/adapter_model.safetensors", 1 << 30)),
        writing(std::make_shared<FileProgress>(weights_.size())) {
    std::filesystem::create_directories(to);
    std::filesystem::copy_file(from + "/adapter_config.json", to / "adapter_config.json");
    out_.open(to / "adapter_model.safetensors");
  }
  ~Sender() { writing->end({StatusCode::unavailable, "the sender is gone"}); }

  std::size_t left() const { return weights_.size() - sent_; }
  void send(std::size_t bytes) {
    out_ << std::string_view(weights_).substr(sent_, bytes) << std::flush;
    sent_ += bytes;
    writing->grow(bytes);
  }
  void send_rest() {
    send(left());
    writing->end({});
  }
  void change(std::size_t at, char to) { weights_[at] = to; }
  const std::filesystem::path& folder() const { return to_; }

 private:
  const std::filesystem::path to_;
  std::string weights_;
  std::size_t sent_ = 0;
  std::ofstream out_;

 public:
  const std::shared_ptr<FileProgress> writing;
};

class ArrivingAdapters : public ::testing::Test {
 protected:
  ArrivingAdapters() {
    right_ = testing::write_peft_adapter(dir_, "right", config_, 48, kModules, 1);
    wrong_ = testing::write_peft_adapter(dir_, "wrong", config_, 48, kModules, 2);
    flat_ = testing::write_peft_adapter(dir_, "flat", config_, 8, kModules, 3);
    const Adapter expected = load_peft_adapter(right_, config_, DType::f32).value();
    digest_ = expected.digest;
    {
      const auto oracle = make(AdapterMode::cached);
      EXPECT_TRUE(oracle->load_adapter("a", right_, false, false).ok());
      expected_ = run(*oracle, request())[0].tokens;
    }
    bytes_ = expected.num_bytes;
    engine_ = make(AdapterMode::planned);
    expect();
  }
  ~ArrivingAdapters() override { arrival_.reset(); }

  // Expects another arrival of the adapter, for whose rest steps wait at most this long.
  void expect(std::chrono::milliseconds longest_shown = kLongestHeld) {
    {
      const std::lock_guard lock(mutex_);
      shown_ = false;  // the previous arrival may have set it
    }
    const auto on_shown = [this](bool shown) {
      const std::lock_guard lock(mutex_);
      shown_ = shown;
      changed_.notify_all();
    };
    arrival_.emplace(engine_->adapter_store(), "a", digest_, bytes_, on_shown, longest_shown);
  }

  std::unique_ptr<Engine> make(AdapterMode mode) {
    EngineOptions options = small_engine_options(256);
    options.adapter_mode = mode;
    if (mode == AdapterMode::planned) {
      options.handoff = in_process_workers(2, faults_);
      options.handoff.deadline_us = 30'000'000;
      // By these costs workers are immediate and the link endless, so plans hand over if they can.
      options.handoff.costs.link_bytes_per_s = 1e3;
      options.handoff.costs.worker_job_s = 0;
      options.handoff.costs.trip_s = 0;
      options.handoff.start_workers =
          [this, start = options.handoff.start_workers](const WorkerPoolOptions& pool) {
            mailbox_ = pool.groups.front().mailbox;
            return start(pool);
          };
    }
    return Engine::create(options, config_, *make_dummy_weights(7), DType::f32, *device_,
                          *tokenizer_, clock_, nullptr)
        .value();
  }
  static std::unique_ptr<Device> two_threads() {
    HostDeviceOptions options;
    options.num_threads = 2;
    options.link_gbps = 0.002;  // so that loads do not end before workers have answered
    return make_host_device(options).value();
  }
  static GenerationRequest request() {
    return greedy({5, 17, 300, 41, 77, 2000, 9, 12, 1000, 3}, 5, "a");
  }

  std::future<Status> read(Sender& sender) {
    return std::async(std::launch::async,
                      [&] { return arrival_->read(sender.folder(), sender.writing); });
  }
  bool wait_until_shown() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [this] { return shown_; });
  }
  bool is_shown() {
    const std::lock_guard lock(mutex_);
    return shown_;
  }
  template <typename Condition>
  static bool wait_until(const Condition& condition) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (!condition() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    return condition();
  }
  std::uint64_t worker_jobs() const {
    return mailbox_->worker_slot(0).jobs.load() + mailbox_->worker_slot(1).jobs.load();
  }
  // Sends all but the last byte and returns once a worker has computed a layer for a request.
  std::unique_ptr<Generation> compute_from(Sender& sender) {
    sender.send(sender.left() - 1);
    EXPECT_TRUE(wait_until_shown());
    const std::uint64_t before = worker_jobs();
    auto generation = engine_->submit(request()).value();
    EXPECT_TRUE(wait_until([&] { return worker_jobs() > before; }));
    return generation;
  }
  bool is_named() const { return engine_->adapter_store().find("a") != nullptr; }
  // Expects that the last reading ended well and that the request that ran meanwhile is right.
  void expect_served(const Status& read, Generation& generation) {
    ASSERT_TRUE(read.ok()) << read.message();
    EXPECT_TRUE(arrival_->is_served());
    arrival_->settle(right_);
    const Collected got = collect(generation)[0];
    EXPECT_TRUE(got.error.ok()) << got.error.message();
    EXPECT_EQ(got.tokens, expected_);
  }

  const ModelSpec config_ = small_model(6);
  testing::TempDir dir_;
  std::string right_, wrong_, flat_;
  std::string digest_;
  std::uint64_t bytes_ = 0;
  std::unique_ptr<Device> device_ = two_threads();
  WorkerFaults faults_;
  const Mailbox* mailbox_ = nullptr;
  std::unique_ptr<Tokenizer> tokenizer_ = Tokenizer::load("data/demo-llama").value();
  SteadyClock clock_;
  std::unique_ptr<Engine> engine_;
  std::vector<TokenId> expected_;
  std::mutex mutex_;  // guards shown_
  std::condition_variable changed_;
  bool shown_ = false;
  std::optional<AdapterArrival> arrival_;
};

}  // namespace tandem::test
