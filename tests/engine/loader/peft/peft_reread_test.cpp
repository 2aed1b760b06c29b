// Adapters are read again, layer by layer.
#include "engine/loader/peft/peft_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>

#include "base/file/file.h"
#include "tests/support/peft_writer.h"

namespace tandem {
namespace {

// 3 MB, so that pieces of the digest begin and end within matrices.
ModelSpec wide_config() {
  DecoderShape shape;
  shape.hidden_size = 512;
  shape.num_layers = 6;
  shape.num_heads = 4;
  shape.num_kv_heads = 2;
  shape.head_dim = 128;
  shape.ffn_size = 700;
  shape.vocab_size = 50;
  return decoder_of(shape);
}

class PeftReread : public ::testing::Test {
 protected:
  std::string write(std::uint64_t seed, std::int32_t rank = 67) {
    return testing::write_peft_adapter(dir_, "adapter", config_, rank, {"q_proj", "v_proj"}, seed);
  }
  Adapter load(DType dtype) { return load(dtype, unix_now_ns()); }
  Adapter load(DType dtype, std::int64_t now_ns) {
    return load_peft_adapter(dir_.path() / "adapter", config_, dtype, nullptr, now_ns).value();
  }
  // Returns a time at which all present files count as old.
  static std::int64_t much_later() { return unix_now_ns() + 60'000'000'000; }
  FileIdentity identity(const std::string& name) {
    return File::open(dir_.path() / "adapter" / name).value().identity().value();
  }
  bool is_local() { return identity(kWeights).is_local; }
  // Repeats the change until the file's times show it, because they have a coarse resolution.
  template <typename Change>
  void change(const std::string& name, Change once) {
    for (const FileIdentity before = identity(name); identity(name) == before;) {
      once(dir_.path() / "adapter" / name);
    }
  }
  static void change_last_value(const std::filesystem::path& file) {
    std::fstream weights(file, std::ios::in | std::ios::out | std::ios::binary);
    weights.seekp(-2, std::ios::end);  // the third byte of a float
    weights.put('\x11');
  }
  static void touch(const std::filesystem::path& file) {
    std::filesystem::last_write_time(file, std::filesystem::file_time_type::clock::now());
  }
  Result<bool> reread(const Adapter& known) {
    TANDEM_ASSIGN(const RereadOutcome read, reread(known, nullptr, team_));
    return read.same;
  }
  Result<RereadOutcome> reread(const Adapter& known,
                               const std::shared_ptr<const PeftSource>& source, ThreadTeam& team) {
    layers_.clear();
    target_ = std::make_unique<std::byte[]>(known.num_bytes);
    std::memset(target_.get(), 0xFF, known.num_bytes);
    return reread_peft_adapter(
        dir_.path() / "adapter", config_, known, source, team, target_.get(),
        [&](std::size_t layer) {
          const std::lock_guard lock(mutex_);
          layers_.insert(layer);
          if (at_layer_) at_layer_(layer);
        },
        now_ns_);
  }

  static constexpr const char* kWeights = "adapter_model.safetensors";
  static constexpr const char* kConfig = "adapter_config.json";
  const ModelSpec config_ = wide_config();
  ThreadTeam team_{3};
  ThreadTeam alone_{0};
  std::int64_t now_ns_ = much_later();
  testing::TempDir dir_;
  std::unique_ptr<std::byte[]> target_;
  std::mutex mutex_;
  std::multiset<std::size_t> layers_;
  std::function<void(std::size_t)> at_layer_;  // one call at a time
};

TEST_F(PeftReread, GivesTheBytesOfAWholeReadLayerByLayer) {
  write(1);
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    const Adapter known = load(dtype);
    at_layer_ = [&](std::size_t layer) {
      const auto begin = static_cast<std::size_t>(known.layers[layer][0].a_offset);
      const auto end = layer + 1 < known.layers.size()
                           ? static_cast<std::size_t>(known.layers[layer + 1][0].a_offset)
                           : known.num_bytes;
      EXPECT_EQ(std::memcmp(target_.get() + begin, known.bytes.get() + begin, end - begin), 0)
          << "layer " << layer << " when it is said to be there";
    };
    const Result<bool> same = reread(known);
    ASSERT_TRUE(same.ok()) << same.status().message();
    EXPECT_TRUE(*same);
    EXPECT_EQ(layers_, (std::multiset<std::size_t>{0, 1, 2, 3, 4, 5})) << "each is told once";
    EXPECT_EQ(std::memcmp(target_.get(), known.bytes.get(), known.num_bytes), 0);
  }
}

TEST_F(PeftReread, FindsOutThatWeightsHaveChanged) {
  write(1);
  const Adapter known = load(DType::bf16);
  write(2);
  const Result<bool> same = reread(known);
  ASSERT_TRUE(same.ok()) << same.status().message();
  EXPECT_FALSE(*same);
}

TEST_F(PeftReread, FindsOutThatTheScaleHasChanged) {
  const std::filesystem::path config = write(1) + "/adapter_config.json";
  const Adapter known = load(DType::bf16);
  dir_.write(config, R"({"peft_type":"LORA","base_model_name_or_path":"base","bias":"none",)"
                     R"("r":67,"lora_alpha":9,"target_modules":["q_proj","v_proj"]})");
  EXPECT_FALSE(reread(known).value());
}

TEST_F(PeftReread, FindsOutAtOnceThatTheLayoutHasChanged) {
  write(1);
  const Adapter known = load(DType::bf16);
  write(1, 66);
  EXPECT_FALSE(reread(known).value());
  EXPECT_TRUE(layers_.empty());
}

TEST_F(PeftReread, SaysThatTheFolderIsGone) {
  write(1);
  const Adapter known = load(DType::bf16);
  std::filesystem::remove_all(dir_.path() / "adapter");
  EXPECT_EQ(reread(known).status().code(), StatusCode::not_found);
  EXPECT_TRUE(layers_.empty());
}

// The file is cut off when the first layer has been read; other threads may be further.
TEST_F(PeftReread, FailsInTheMiddleWhenTheFileIsCutOff) {
  bool failed = false;
  for (int round = 0; round < 50 && !failed; ++round) {
    write(1);
    const Adapter known = load(DType::bf16);
    at_layer_ = [&](std::size_t) {
      std::filesystem::resize_file(dir_.path() / "adapter" / "adapter_model.safetensors", 100'000);
    };
    const Result<bool> same = reread(known);
    failed = !same.ok();
    if (failed) {
      EXPECT_LT(layers_.size(), 6U);
      EXPECT_NE(same.status().message().find("adapter_model.safetensors"), std::string::npos)
          << same.status().message();
    } else {
      EXPECT_TRUE(*same);
    }
  }
  EXPECT_TRUE(failed);
}

TEST_F(PeftReread, HashesNothingWhileTheFilesAreTheSame) {
  write(1);
  if (!is_local()) GTEST_SKIP() << "the folder for temporary files is on no local file system";
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Adapter known = load(dtype, much_later());
    ASSERT_NE(known.source, nullptr);
    const Result<RereadOutcome> read = reread(known, known.source, team_);
    ASSERT_TRUE(read.ok()) << read.status().message();
    EXPECT_TRUE(read->same);
    EXPECT_FALSE(read->hashed);
    EXPECT_EQ(read->source, known.source);
    EXPECT_EQ(layers_, (std::multiset<std::size_t>{0, 1, 2, 3, 4, 5}));
    EXPECT_EQ(std::memcmp(target_.get(), known.bytes.get(), known.num_bytes), 0);
  }
}

TEST_F(PeftReread, HashesFilesThatWereTouchedAndKnowsThemFromThenOn) {
  write(1);
  if (!is_local()) GTEST_SKIP() << "the folder for temporary files is on no local file system";
  const Adapter known = load(DType::bf16, much_later());
  for (const char* file : {kWeights, kConfig}) {
    change(file, touch);
    const RereadOutcome hashed = reread(known, known.source, team_).value();
    EXPECT_TRUE(hashed.same) << file;
    EXPECT_TRUE(hashed.hashed) << file;
    ASSERT_NE(hashed.source, nullptr) << file;
    const RereadOutcome again = reread(known, hashed.source, team_).value();
    EXPECT_TRUE(again.same && !again.hashed) << file;
    EXPECT_EQ(std::memcmp(target_.get(), known.bytes.get(), known.num_bytes), 0);
  }
}

TEST_F(PeftReread, FindsOutThatContentHasChangedWhoseTimeOfWritingWasSetBack) {
  write(1);
  const Adapter known = load(DType::bf16, much_later());
  const FileIdentity before = identity(kWeights);
  const auto written = std::filesystem::last_write_time(dir_.path() / "adapter" / kWeights);
  change(kWeights, [&](const std::filesystem::path& file) {
    change_last_value(file);
    std::filesystem::last_write_time(file, written);
  });
  EXPECT_EQ(identity(kWeights).mtime_ns, before.mtime_ns);
  EXPECT_EQ(identity(kWeights).size, before.size);
  const RereadOutcome read = reread(known, known.source, team_).value();
  EXPECT_FALSE(read.same);
  EXPECT_TRUE(read.hashed);
  EXPECT_EQ(read.source, nullptr);
}

// With one thread, the last layer is unread when the first one is reported.
TEST_F(PeftReread, FindsOutThatContentHasChangedWhileItWasRead) {
  write(1);
  if (!is_local()) GTEST_SKIP() << "the folder for temporary files is on no local file system";
  const Adapter known = load(DType::bf16, much_later());
  at_layer_ = [&](std::size_t layer) {
    if (layer == 0) change(kWeights, change_last_value);
  };
  const RereadOutcome read = reread(known, known.source, alone_).value();
  EXPECT_EQ(layers_.size(), 6U) << "the change was found out at the end";
  EXPECT_FALSE(read.same);
  EXPECT_TRUE(read.hashed);
}

TEST_F(PeftReread, HashesWhatItHasReadWhenTheFilesWereTouchedMeanwhile) {
  write(1);
  const Adapter known = load(DType::bf16, much_later());
  for (const char* file : {kWeights, kConfig}) {
    at_layer_ = [&](std::size_t layer) {
      if (layer == 0) change(file, touch);
    };
    const RereadOutcome read = reread(known, known.source, alone_).value();
    EXPECT_TRUE(read.same) << file;
    EXPECT_TRUE(read.hashed) << file;
    EXPECT_EQ(read.source, nullptr) << file;
  }
}

// A change so soon after the reading might leave the times unchanged.
TEST_F(PeftReread, DoesNotRelyOnFilesThatWereWrittenJustBefore) {
  write(1);
  const std::int64_t written = std::max(identity(kWeights).ctime_ns, identity(kConfig).ctime_ns);
  const Adapter known = load(DType::bf16, written + 1'999'999'999);
  EXPECT_EQ(known.source, nullptr);
  now_ns_ = written + 1'999'999'999;
  RereadOutcome read = reread(known, known.source, team_).value();
  EXPECT_TRUE(read.same && read.hashed);
  EXPECT_EQ(read.source, nullptr);
  now_ns_ = written + 2'000'000'000;
  read = reread(known, known.source, team_).value();
  EXPECT_TRUE(read.same && read.hashed);
  EXPECT_EQ(read.source != nullptr, is_local());
}

}  // namespace
}  // namespace tandem
