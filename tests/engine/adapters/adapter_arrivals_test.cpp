// Adapters that are served while they come: whatever becomes of who sends them, the text is that of
// the adapter with the digest, or none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <future>
#include <mutex>
#include <optional>
#include <thread>

#include "base/file.h"
#include "engine/adapters/adapter_arrival.h"
#include "engine/loader/peft/peft_reader.h"
#include "engine/loader/weights.h"
#include "gpu/host/host_device.h"
#include "tests/support/in_process_pool.h"
#include "tests/support/peft_writer.h"
#include "tests/support/small_model.h"
#include "tests/support/test_engine.h"

namespace tandem::test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::chrono::seconds kPatience{20};
const std::vector<Module> kModules = {Module::q, Module::v, Module::o, Module::down};

// Sends what an adapter's folder holds, as far as the test says, into one that is read meanwhile.
class Sender {
 public:
  Sender(const std::string& from, const fs::path& to)
      : to_(to),
        weights_(*read_text_file(from + "/adapter_model.safetensors", 1 << 30)),
        writing(std::make_shared<FileProgress>(weights_.size())) {
    fs::create_directories(to);
    fs::copy_file(from + "/adapter_config.json", to / "adapter_config.json");
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
  const fs::path& folder() const { return to_; }

 private:
  const fs::path to_;
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
    engine_ = make(AdapterMode::planned);
    arrival_.emplace(engine_->adapter_store(), "a", digest_, expected.num_bytes,
                     [this](bool shown) {
                       const std::lock_guard lock(mutex_);
                       shown_ = shown;
                       changed_.notify_all();
                     });
  }
  ~ArrivingAdapters() override { arrival_.reset(); }

  std::unique_ptr<Engine> make(AdapterMode mode) {
    EngineOptions options = small_engine_options(256);
    options.adapter_mode = mode;
    if (mode == AdapterMode::planned) {
      options.handoff = in_process_workers(2, faults_);
      options.handoff.deadline_us = 30'000'000;
      // Workers answer at once, the link takes for ever: whoever plans hands over.
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
    options.link_gbps = 0.005;  // loads are not over before workers are asked
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
  template <typename Condition>
  static bool wait_until(const Condition& condition) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (!condition() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    return condition();
  }
  std::uint64_t worker_jobs() const {
    return mailbox_->seat(0).jobs.load() + mailbox_->seat(1).jobs.load();
  }
  // All but the last byte has come, it is shown, and a worker has computed a layer for a request.
  std::unique_ptr<Generation> compute_from(Sender& sender) {
    sender.send(sender.left() - 1);
    EXPECT_TRUE(wait_until_shown());
    const std::uint64_t before = worker_jobs();
    auto generation = engine_->submit(request()).value();
    EXPECT_TRUE(wait_until([&] { return worker_jobs() > before; }));
    return generation;
  }
  bool is_named() const { return engine_->adapter_store().find("a") != nullptr; }

  const ModelConfig config_ = small_model(6);
  testing::TempDir dir_;
  std::string right_, wrong_, flat_;
  std::string digest_;
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

TEST_F(ArrivingAdapters, AreComputedFromByWorkersBeforeTheLastByteHasCome) {
  Sender sender(right_, dir_.path() / "incoming");
  auto reading = read(sender);
  const auto generation = compute_from(sender);
  EXPECT_EQ(sender.left(), 1U) << "what a worker computed, it computed before that";
  sender.send_rest();
  const Status read = reading.get();
  ASSERT_TRUE(read.ok()) << read.message();
  const Collected got = collect(*generation)[0];
  EXPECT_TRUE(got.error.ok()) << got.error.message();
  EXPECT_EQ(got.tokens, expected_);
  EXPECT_TRUE(arrival_->is_served());
  EXPECT_GT(arrival_->lead().count(), 0);
  EXPECT_EQ(engine_->adapters()[0].path, "") << "nobody may be sent to a folder that goes";
  arrival_->settle(right_);
  EXPECT_EQ(engine_->adapters()[0].path, right_);
  EXPECT_TRUE(wait_until([&] { return engine_->stats().adapter_loads == 1U; }));
  EXPECT_EQ(run(*engine_, request())[0].tokens, expected_);
  EXPECT_EQ(engine_->adapter_store().early_arrivals(), 1U);
}

TEST_F(ArrivingAdapters, ComeFromAnotherWhereTheFirstDiesAfterItWasUsed) {
  Sender dies(right_, dir_.path() / "first");
  auto first = read(dies);
  const auto generation = compute_from(dies);
  dies.writing->end({StatusCode::unavailable, "it broke off"});
  EXPECT_THAT(first.get().message(), HasSubstr("it broke off"));
  EXPECT_TRUE(is_named()) << "who asks for it now waits for the next, too";
  Sender sends(right_, dir_.path() / "second");
  auto second = read(sends);
  sends.send_rest();
  const Status read = second.get();
  ASSERT_TRUE(read.ok()) << read.message();
  EXPECT_TRUE(arrival_->is_served());
  arrival_->settle(right_);
  const Collected got = collect(*generation)[0];
  EXPECT_TRUE(got.error.ok()) << got.error.message();
  EXPECT_EQ(got.tokens, expected_);
  EXPECT_GE(engine_->stats().replays, 1U);
}

TEST_F(ArrivingAdapters, AreNobodysWhereTheOnlyOneLies) {
  Sender lies(wrong_, dir_.path() / "incoming");
  auto reading = read(lies);
  const auto generation = compute_from(lies);
  lies.send_rest();
  const Status read = reading.get();
  EXPECT_EQ(read.code(), StatusCode::invalid_argument);
  EXPECT_THAT(read.message(), HasSubstr("holds other weights"));
  EXPECT_FALSE(arrival_->is_served());
  arrival_->fail({StatusCode::unavailable, "nobody gives it"});
  const Collected got = collect(*generation)[0];
  EXPECT_EQ(got.error.message(), "nobody gives it");
  EXPECT_THAT(got.tokens, IsEmpty()) << "no token of it may have been sent";
  EXPECT_FALSE(is_named());
  EXPECT_TRUE(wait_until([&] { return engine_->adapter_store().host_tier().used() == 0; }));
}

TEST_F(ArrivingAdapters, AreRefusedAtOnceInAnotherShape) {
  Sender lies(flat_, dir_.path() / "first");
  lies.send_rest();
  const Status refused = read(lies).get();
  EXPECT_EQ(refused.code(), StatusCode::invalid_argument);
  EXPECT_THAT(refused.message(), HasSubstr("bytes of weights"));
  EXPECT_FALSE(is_named());
  Sender sends(right_, dir_.path() / "second");
  sends.send_rest();
  const Status read_second = read(sends).get();
  EXPECT_TRUE(read_second.ok()) << read_second.message();
}

TEST_F(ArrivingAdapters, ServeThoseWhoBeganWhenTheyAreUnloaded) {
  Sender sender(right_, dir_.path() / "incoming");
  auto reading = read(sender);
  const auto generation = compute_from(sender);
  EXPECT_TRUE(engine_->unload_adapter("a").ok());
  sender.send_rest();
  ASSERT_TRUE(reading.get().ok());
  EXPECT_TRUE(arrival_->is_served()) << "nobody shall load it again";
  arrival_->settle(right_);
  EXPECT_EQ(collect(*generation)[0].tokens, expected_);
  EXPECT_FALSE(is_named());
}

TEST_F(ArrivingAdapters, GiveWayToOneThatSomebodyLoadsMeanwhile) {
  Sender sender(wrong_, dir_.path() / "incoming");
  auto reading = read(sender);
  const auto generation = compute_from(sender);
  EXPECT_TRUE(engine_->load_adapter("a", right_, false, false).ok());
  sender.send_rest();
  EXPECT_FALSE(reading.get().ok());
  arrival_->fail({StatusCode::unavailable, "nobody gives it"});
  EXPECT_EQ(collect(*generation)[0].error.message(), "nobody gives it");
  EXPECT_EQ(run(*engine_, request())[0].tokens, expected_) << "what was loaded stays";
}

TEST_F(ArrivingAdapters, AreNotShownUnderANameThatIsServed) {
  EXPECT_TRUE(engine_->load_adapter("a", wrong_, false, false).ok());
  Sender sender(right_, dir_.path() / "incoming");
  sender.send_rest();
  EXPECT_TRUE(read(sender).get().ok());
  EXPECT_FALSE(arrival_->is_served());
  EXPECT_NE(engine_->adapters()[0].digest, digest_);
}

TEST_F(ArrivingAdapters, LetTheStoreStop) {
  Sender sender(right_, dir_.path() / "incoming");
  auto reading = read(sender);
  auto generation = compute_from(sender);
  engine_->adapter_store().stop();
  sender.send_rest();
  EXPECT_TRUE(reading.get().ok());
  generation.reset();
}

TEST_F(ArrivingAdapters, AreRefusedAtTheFirstDamageAndNeverShown) {
  struct Damage {
    const char* what;
    std::size_t at;
    char byte;
  };
  for (const auto& [what, at, byte] :
       {Damage{"claims a header of", 6, '\x01'}, Damage{"adapter_model.safetensors", 8, '['}}) {
    Sender sender(right_, dir_.path() / ("incoming" + std::to_string(at)));
    sender.change(at, byte);
    auto reading = read(sender);
    sender.send(sender.left() - 1);
    const Status refused = reading.get();
    EXPECT_EQ(refused.code(), StatusCode::invalid_argument) << "the last byte is not waited for";
    EXPECT_THAT(refused.message(), HasSubstr(what));
    EXPECT_FALSE(shown_);
  }
  // The last value of the last tensor: a NaN.
  Sender sender(right_, dir_.path() / "nan");
  for (std::size_t i = 1; i <= 4; ++i) sender.change(sender.left() - i, '\x7f');
  sender.change(sender.left() - 2, '\xff');
  sender.send_rest();
  EXPECT_THAT(read(sender).get().message(), HasSubstr("holds a NaN"));
  arrival_->fail({StatusCode::unavailable, "nobody gives it"});
  EXPECT_FALSE(is_named());
  EXPECT_EQ(engine_->adapter_store().host_tier().used(), 0U);
}

}  // namespace
}  // namespace tandem::test
