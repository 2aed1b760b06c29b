// Fetches from peers that have the adapter, lack it, lie, stall, or send without end.
#include "engine/peers/peer_fetcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/file/file.h"
#include "base/http/http_server.h"
#include "base/log/log.h"
#include "engine/loader/peft/peft_source.h"
#include "tests/engine/peers/file_peer.h"
#include "tests/support/temp_dir.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string kDigest(32, 'd');
const std::string kConfig = R"({"peft_type":"LORA"})";

// A body that never ends or never begins.
class Endless final : public BodySource {
 public:
  explicit Endless(std::size_t bytes) : bytes_(bytes) {}
  void on_ready(std::function<void()>) override {}
  Pull pull(std::string& out) override {
    out.append(bytes_, 'x');
    return bytes_ > 0 ? Pull::more : Pull::wait;
  }

 private:
  const std::size_t bytes_;
};

// Stands in for an engine as its peers see it.
class Peer final : public HttpHandler {
 public:
  using Answer = std::function<HttpResponse(bool is_config)>;

  explicit Peer(Answer answer) : answer_(std::move(answer)) {
    server_ = testing::serve_peer(*this);
  }
  ~Peer() override { server_.reset(); }
  HttpAddress address() const { return {"127.0.0.1", server_->port()}; }
  int asked() const { return asked_; }
  std::map<std::string, std::string> beside;  // other files; set before it is asked

  std::optional<HttpResponse> screen(const HttpRequest&) override { return std::nullopt; }
  HttpResponse handle(const HttpRequest& request) override {
    ++asked_;
    const std::string begin = "/v1/adapters/" + kDigest + "/";
    if (request.header("authorization") != "Bearer key") return text(401, "");
    if (request.path == begin + "adapter_config.json") return answer_(true);
    if (request.path == begin + "adapter_model.safetensors") return answer_(false);
    for (const auto& [file, body] : beside) {
      if (request.path == begin + file) return text(200, body);
    }
    return text(404, "");
  }
  HttpResponse refuse(int status, std::string_view) override { return text(status, ""); }

  static HttpResponse text(int status, std::string body) {
    HttpResponse response;
    response.status = status;
    response.body = std::move(body);
    return response;
  }

 private:
  const Answer answer_;
  std::atomic<int> asked_{0};
  std::unique_ptr<HttpServer> server_;
};

HttpResponse endless(std::size_t bytes) {
  HttpResponse response;
  response.source = std::make_unique<Endless>(bytes);
  return response;
}

// A response of these bytes and then `then`, with or without an announced length.
HttpResponse said(std::string bytes, BodySource::Pull then, std::optional<std::size_t> announced) {
  class Said final : public BodySource {
   public:
    Said(std::string bytes, Pull then) : bytes_(std::move(bytes)), then_(then) {}
    void on_ready(std::function<void()>) override {}
    Pull pull(std::string& out) override {
      out += bytes_;
      return then_;
    }

   private:
    const std::string bytes_;
    const Pull then_;
  };
  HttpResponse response;
  response.source = std::make_unique<Said>(std::move(bytes), then);
  response.source_bytes = announced;
  return response;
}

// A response of endless bytes, one at a time and without a pause.
HttpResponse trickle(bool is_config) {
  class Trickle final : public BodySource {
   public:
    void on_ready(std::function<void()> wake) override { wake_ = std::move(wake); }
    Pull pull(std::string& out) override {
      std::this_thread::sleep_for(std::chrono::microseconds(100));  // slower than any real stream
      out += 'x';
      wake_();
      return Pull::wait;
    }

   private:
    std::function<void()> wake_;
  };
  HttpResponse response = Peer::text(200, kConfig);
  if (!is_config) response.source = std::make_unique<Trickle>();
  return response;
}

class PeerFetch : public ::testing::Test {
 protected:
  void SetUp() override {
    log::set_level(log::Level::off);
    store_ = std::move(*LocalStore::open(dir_.path() / "store", 1 << 20));
    options_.api_key = "key";
    options_.pause = std::chrono::milliseconds(1);
  }
  Peer& peer(Peer::Answer answer) {
    peers_.push_back(std::make_unique<Peer>(std::move(answer)));
    return *peers_.back();
  }
  Peer& giving(const std::string& weights) {
    return peer(
        [weights](bool is_config) { return Peer::text(200, is_config ? kConfig : weights); });
  }
  // Fetches from all peers in their order. Anything but "good" is not the adapter.
  Status fetch(std::uint64_t max_bytes = 1000) {
    PeerFetcher fetcher(*store_, options_);
    std::vector<HttpAddress> addresses = more_;
    for (const auto& each : peers_) addresses.push_back(each->address());
    return fetcher.fetch(
        {kDigest, max_bytes}, addresses,
        [&](const LocalStore::Kept& kept) {
          EXPECT_EQ(*read_text_file(kept.folder / "adapter_config.json", 1000), kConfig);
          const auto weights = read_text_file(kept.folder / "adapter_model.safetensors", 1000);
          if (*weights != "good") return invalid("other weights");
          return use_status_;
        },
        arrive_);
  }
  // Expects that the peer is reported with the reason, and that another peer then gives the
  // adapter.
  void expect_passed_over(Peer::Answer answer, const std::string& why) {
    const std::string name = peer(std::move(answer)).address().text();
    const Status alone = fetch();
    EXPECT_EQ(alone.code(), StatusCode::unavailable);
    EXPECT_THAT(alone.message(), AllOf(HasSubstr(name), HasSubstr(why), HasSubstr("load it on")));
    EXPECT_FALSE(store_->find(kDigest).has_value());
    EXPECT_EQ(store_->used_bytes(), 0U);
    giving("good");
    const Status both = fetch();
    EXPECT_TRUE(both.ok()) << both.message();
    EXPECT_TRUE(store_->find(kDigest).has_value());
  }

  testing::TempDir dir_;
  PeerFetcherOptions options_;
  std::unique_ptr<LocalStore> store_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::vector<HttpAddress> more_;
  Status use_status_;
  PeerFetcher::Arrive arrive_;
};

TEST_F(PeerFetch, AsksOneAfterTheOtherForWhatItLacks) {
  Peer& lacks = peer([](bool) { return Peer::text(404, ""); });
  Peer& gives = giving("good");
  Peer& spared = giving("good");
  const Status fetched = fetch();
  EXPECT_TRUE(fetched.ok()) << fetched.message();
  EXPECT_EQ(lacks.asked(), 1);
  EXPECT_EQ(gives.asked(), 2 + static_cast<int>(kFilesBeside.size()));
  EXPECT_EQ(spared.asked(), 0);
  EXPECT_EQ(store_->used_bytes(), kConfig.size() + 4);
}

TEST_F(PeerFetch, BringsTheFilesOfTheTokenizerAndTheTemplateBeforeTheWeights) {
  Peer& gives = giving("good");
  gives.beside = {{"tokenizer.json", "{}"}, {"chat_template.jinja", "{{ x }}"}, {"other", "no"}};
  arrive_ = [&](const fs::path& folder, const std::shared_ptr<const FileProgress>& writing) {
    EXPECT_EQ(*read_text_file(folder / "tokenizer.json", 1000), "{}");
    EXPECT_EQ(*read_text_file(folder / "chat_template.jinja", 1000), "{{ x }}");
    EXPECT_FALSE(fs::exists(folder / "other"));
    return writing->wait_for(4);
  };
  const Status fetched = fetch();
  EXPECT_TRUE(fetched.ok()) << fetched.message();
  EXPECT_EQ(store_->used_bytes(), kConfig.size() + 4 + 2 + 7);
}

TEST_F(PeerFetch, PassesOverAPeerWhoseTokenizerHasNoEnd) {
  Peer& sends = giving("good");
  sends.beside = {{"tokenizer.json", std::string(kMaxBesideBytes + 1, ' ')}};
  EXPECT_EQ(fetch().code(), StatusCode::unavailable);
  EXPECT_EQ(store_->used_bytes(), 0U);
}

TEST_F(PeerFetch, SaysThatNobodyHasIt) {
  EXPECT_THAT(fetch().message(), HasSubstr("no other engine in the registry"));
  peer([](bool) { return Peer::text(404, ""); });
  peer([](bool) { return Peer::text(404, ""); });
  EXPECT_THAT(fetch().message(), HasSubstr("2 other engines of the registry lack it"));
}

// A body of known length whose last byte is sent after `may_end`.
HttpResponse held_back(const std::string& text, std::shared_future<void> may_end) {
  class Held final : public BodySource {
   public:
    Held(std::string text, std::shared_future<void> may_end)
        : text_(std::move(text)), may_end_(std::move(may_end)) {}
    void on_ready(std::function<void()> wake) override {
      waits_ = std::jthread([this, wake = std::move(wake)] {
        may_end_.wait();
        wake();
      });
    }
    Pull pull(std::string& out) override {
      if (!begun_) out += text_.substr(0, text_.size() - 1);
      begun_ = true;
      if (may_end_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
        return Pull::wait;
      }
      out += text_.back();
      return Pull::end;
    }

   private:
    const std::string text_;
    const std::shared_future<void> may_end_;
    bool begun_ = false;
    std::jthread waits_;
  };
  HttpResponse response = Peer::text(200, "");
  response.source_bytes = text.size();
  response.source = std::make_unique<Held>(text, std::move(may_end));
  return response;
}

TEST_F(PeerFetch, HasItUsedBeforeTheLastByteComes) {
  std::promise<void> used;
  peer([may_end = used.get_future().share()](bool is_config) {
    return is_config ? Peer::text(200, kConfig) : held_back("good", may_end);
  });
  arrive_ = [&](const fs::path& folder, const std::shared_ptr<const FileProgress>& writing) {
    EXPECT_EQ(*read_text_file(folder / "adapter_config.json", 1000), kConfig);
    EXPECT_EQ(writing->size(), 4U);
    EXPECT_TRUE(writing->wait_for(3).ok());
    EXPECT_EQ(*read_text_file(folder / "adapter_model.safetensors", 1000), "goo");
    EXPECT_FALSE(store_->find(kDigest).has_value()) << "its name is for what is whole";
    used.set_value();
    return writing->wait_for(4);
  };
  const Status fetched = fetch();
  EXPECT_TRUE(fetched.ok()) << fetched.message();
  EXPECT_TRUE(store_->find(kDigest).has_value());
}

TEST_F(PeerFetch, KeepsNothingThatWasRefusedWhileItCame) {
  int refused = 0;
  arrive_ = [&](const fs::path& folder, const std::shared_ptr<const FileProgress>& writing) {
    EXPECT_TRUE(writing->wait_for(writing->size()).ok());
    if (*read_text_file(folder / "adapter_model.safetensors", 1000) == "good") return Status();
    ++refused;
    return invalid("other weights, early");
  };
  expect_passed_over([](bool is_config) { return Peer::text(200, is_config ? kConfig : "evil"); },
                     "is not the adapter: other weights, early");
  EXPECT_EQ(refused, 2) << "alone, and before the other";
}

TEST_F(PeerFetch, TellsWhoUsesItThatAPeerBrokeOff) {
  std::vector<std::string> told;
  arrive_ = [&](const fs::path&, const std::shared_ptr<const FileProgress>& writing) {
    Status whole = writing->wait_for(writing->size());
    if (!whole) told.push_back(whole.message());
    return whole;
  };
  expect_passed_over(
      [](bool is_config) {
        return is_config ? Peer::text(200, kConfig) : said("go", BodySource::Pull::broken, 4);
      },
      "broke off");
  EXPECT_THAT(told, ::testing::Each(HasSubstr("broke off")));
  EXPECT_EQ(told.size(), 2U) << "alone, and before the other";
}

TEST_F(PeerFetch, UsesNothingEarlyOfALengthThatNobodyTells) {
  bool is_used = false;
  arrive_ = [&](const fs::path&, const std::shared_ptr<const FileProgress>&) {
    is_used = true;
    return Status();
  };
  peer([](bool is_config) {
    return is_config ? Peer::text(200, kConfig) : said("good", BodySource::Pull::end, std::nullopt);
  });
  EXPECT_TRUE(fetch().ok());
  EXPECT_FALSE(is_used);
}

TEST_F(PeerFetch, PassesOverAPeerThatLies) {
  expect_passed_over([](bool is_config) { return Peer::text(200, is_config ? kConfig : "evil"); },
                     "is not the adapter: other weights");
}

TEST_F(PeerFetch, PassesOverAPeerThatAnnouncesTooMuch) {
  expect_passed_over(
      [](bool is_config) { return Peer::text(200, is_config ? kConfig : std::string(1001, 'x')); },
      "more than the 1000 bytes");
}

TEST_F(PeerFetch, PassesOverAPeerThatSendsWithoutEnd) {
  expect_passed_over(
      [](bool is_config) { return is_config ? Peer::text(200, kConfig) : endless(16384); },
      "more than the 1000 bytes");
}

TEST_F(PeerFetch, PassesOverAConfigurationWithoutEnd) {
  expect_passed_over([](bool) { return endless(16384); }, "more than the 1048576 bytes");
}

TEST_F(PeerFetch, PassesOverAPeerThatSendsTooLittle) {
  expect_passed_over(
      [](bool is_config) {
        return is_config ? Peer::text(200, kConfig) : said("go", BodySource::Pull::broken, 4);
      },
      "broke off");
}

TEST_F(PeerFetch, PassesOverAPeerThatStalls) {
  options_.times.deadlines.first_byte = std::chrono::seconds(1);
  options_.times.deadlines.between = std::chrono::seconds(1);
  expect_passed_over(
      [](bool is_config) { return is_config ? Peer::text(200, kConfig) : endless(0); },
      "silent for too long");
}

TEST_F(PeerFetch, PassesOverAPeerThatTrickles) {
  options_.times.longest = std::chrono::milliseconds(200);
  options_.times.bytes_per_s = 1'000'000'000;
  peer(trickle);
  EXPECT_THAT(fetch(1000000).message(), HasSubstr("too slow"));
}

TEST_F(PeerFetch, GivesATrickleNotTheTimeOfALargeFile) {
  options_.times.span = std::chrono::milliseconds(200);
  peer(trickle);
  EXPECT_THAT(fetch(1000000).message(), HasSubstr("too slow"));
  // A peer that brings the required bytes in each span may use all of the time.
  options_.times.span = std::chrono::seconds(20);
  options_.times.bytes_per_span = 1;
  options_.times.longest = std::chrono::milliseconds(1500);
  options_.times.bytes_per_s = 1'000'000'000;
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THAT(fetch(1000000).message(), HasSubstr("too slow"));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, options_.times.longest);
}

TEST_F(PeerFetch, PassesOverPeersThatCannotBeReachedOrRefuse) {
  {
    const Peer gone([](bool) { return Peer::text(200, ""); });
    more_.push_back(gone.address());
  }
  options_.api_key = "another";
  giving("good");
  EXPECT_THAT(fetch().message(),
              AllOf(HasSubstr("cannot be reached"), HasSubstr("give all engines the same")));
}

TEST_F(PeerFetch, ComesBackToThoseThatAreBusy) {
  auto left = std::make_shared<std::atomic<int>>(2);
  const Peer& busy = peer([left](bool is_config) {
    if (left->fetch_sub(1) > 0) return Peer::text(503, "");
    return Peer::text(200, is_config ? kConfig : "good");
  });
  const Status fetched = fetch();
  EXPECT_TRUE(fetched.ok()) << fetched.message();
  EXPECT_EQ(busy.asked(), 4 + static_cast<int>(kFilesBeside.size()));
  left->store(1000);
  EXPECT_THAT(fetch().message(), HasSubstr("is overloaded"));
}

TEST_F(PeerFetch, AsksNobodyElseWhenTheFaultIsItsOwn) {
  giving("good");
  Peer& spared = giving("good");
  use_status_ = error(StatusCode::resource_exhausted, "no room");
  EXPECT_EQ(fetch().message(), "no room");
  EXPECT_TRUE(store_->find(kDigest).has_value()) << "what came is good";
  EXPECT_EQ(spared.asked(), 0);
}

TEST_F(PeerFetch, PassesOverAPeerWhoseFilesHaveNoRoomInTheStore) {
  peer([](bool is_config) { return is_config ? Peer::text(200, kConfig) : endless(16384); });
  const Status alone = fetch(std::uint64_t{2} << 20);
  EXPECT_EQ(alone.code(), StatusCode::unavailable);
  EXPECT_THAT(alone.message(), HasSubstr("raise adapter_store_gb"));
  giving("good");
  const Status both = fetch(std::uint64_t{2} << 20);
  EXPECT_TRUE(both.ok()) << both.message();
}

TEST_F(PeerFetch, EndsWhenItIsStopped) {
  std::promise<void> reached;
  peer([&](bool) {
    reached.set_value();
    return endless(0);
  });
  PeerFetcher fetcher(*store_, options_);
  auto fetching = std::async(std::launch::async, [&] {
    return fetcher.fetch({kDigest, 1000}, {peers_[0]->address()},
                         [](const LocalStore::Kept&) { return Status(); });
  });
  reached.get_future().wait();
  fetcher.stop();
  EXPECT_THAT(fetching.get().message(), HasSubstr("this server is shutting down"));
}

}  // namespace
}  // namespace tandem
