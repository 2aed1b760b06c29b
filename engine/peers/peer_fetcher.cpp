#include "engine/peers/peer_fetcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "base/log/log.h"
#include "base/status_copy.h"
#include "engine/loader/peft/peft_source.h"

namespace tandem {
namespace {

constexpr std::size_t kMostNamed = 4;  // number of peers named in a message

// The replies of the peers that could not help, for a message of bounded length.
class Refusals {
 public:
  void add(const HttpAddress& peer, const Status& why) {
    log::info("{} did not send an adapter's files: {}", peer.text(), why.message());
    if (++count_ > kMostNamed) return;
    if (!text_.empty()) text_ += "; ";
    text_ += fmt::format("{}: {}", peer.text(), why.message());
  }
  std::string text() const {
    if (count_ <= kMostNamed) return text_;
    return fmt::format("{}; and {} more, which the log names", text_, count_ - kMostNamed);
  }
  bool empty() const { return count_ == 0; }

 private:
  std::string text_;
  std::size_t count_ = 0;
};

Status nobody_gives(std::size_t lack, const Refusals& refusals) {
  std::string said;
  if (lack > 0) {
    said = fmt::format("{} other engine{} of the registry {} it", lack, lack == 1 ? "" : "s",
                       lack == 1 ? "lacks" : "lack");
  }
  if (!refusals.empty()) {
    said += fmt::format("{}{}", said.empty() ? "" : "; ", refusals.text());
  }
  if (said.empty()) said = "there is no other engine in the registry to ask";
  return error(StatusCode::unavailable,
               "{}; load it on one of them, or put its folder where this engine may read it", said);
}

}  // namespace

namespace {

// Processes a file while it arrives, on a thread beside the one that writes it.
class Arrival {
 public:
  // If no thread can be started, nothing is processed.
  Arrival(const PeerFetcher::Arrive& arrive, const std::filesystem::path& folder,
          std::uint64_t bytes)
      : writing_(std::make_shared<FileProgress>(bytes)) {
    try {
      thread_ = std::thread([this, &arrive, folder] { arrived_ = run(arrive, folder); });
    } catch (const std::system_error&) {
      arrived_ = {StatusCode::resource_exhausted, "there is no thread for it"};
    }
  }
  // If end() was not called before, an exception is the reason.
  ~Arrival() { (void)end({StatusCode::unavailable, "out of memory"}); }
  Arrival(const Arrival&) = delete;
  Arrival& operator=(const Arrival&) = delete;

  void grow(std::uint64_t bytes) { writing_->grow(bytes); }
  // Ends the file's progress and joins the thread. The first call returns the result of processing.
  Status end(const Status& why) noexcept {
    writing_->end(copy_of(why));
    if (thread_.joinable()) thread_.join();
    return std::move(arrived_);
  }

 private:
  Status run(const PeerFetcher::Arrive& arrive, const std::filesystem::path& folder) const {
    try {
      return arrive(folder, writing_);
    } catch (const std::exception&) {
      return {StatusCode::unavailable, "out of memory"};
    }
  }

  const std::shared_ptr<FileProgress> writing_;
  Status arrived_;  // written by the thread; readable after the join
  std::thread thread_;
};

}  // namespace

bool blames_folder(const Status& status) {
  switch (status.code()) {
    case StatusCode::invalid_argument:
    case StatusCode::not_found:
    case StatusCode::permission_denied:
    case StatusCode::internal:  // the disk failed
      return true;
    default:
      return false;
  }
}

PeerFetcher::PeerFetcher(LocalStore& store, PeerFetcherOptions options)
    : store_(store), options_(std::move(options)) {}

void PeerFetcher::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  stops_.notify_all();
  stop_.stop();
}

bool PeerFetcher::pause() {
  std::unique_lock lock(mutex_);
  return !stops_.wait_for(lock, options_.pause, [this] { return stopped_; });
}

Status PeerFetcher::fetch(const WantedAdapter& wanted, const std::vector<HttpAddress>& peers,
                          const Use& use, const Arrive& arrive) {
  Refusals refusals;
  std::size_t lack = 0;
  std::vector<HttpAddress> asked = peers;
  for (int round = 1; !asked.empty(); ++round) {
    std::vector<HttpAddress> busy;
    for (const HttpAddress& peer : asked) {
      PeerAnswer answer = fetch_from(peer, wanted, use, arrive);
      switch (answer.kind) {
        case PeerAnswer::Kind::ok:
          return {};
        case PeerAnswer::Kind::lacks:
          ++lack;
          break;
        case PeerAnswer::Kind::busy:
          if (round < options_.rounds) {
            busy.push_back(peer);
            break;
          }
          [[fallthrough]];
        case PeerAnswer::Kind::failed:
          refusals.add(peer, answer.status);
          break;
        case PeerAnswer::Kind::ours:
          return std::move(answer.status);
      }
    }
    asked = std::move(busy);
    if (!asked.empty() && !pause())
      return error(StatusCode::unavailable, "this server is shutting down");
  }
  return nobody_gives(lack, refusals);
}

Result<std::unique_ptr<IncomingAdapter>> PeerFetcher::take_room(std::uint64_t bytes) {
  Result<std::unique_ptr<IncomingAdapter>> begun = store_.begin(bytes);
  if (begun.status().code() != StatusCode::resource_exhausted) return begun;
  if (bytes > store_.max_bytes() || !options_.make_room || !options_.make_room()) return begun;
  return store_.begin(bytes);
}

// The small files are fetched first: most engines lack the adapter and say so at once, and an
// adapter that is used while it arrives has its tokenizer from the start.
PeerAnswer PeerFetcher::fetch_from(const HttpAddress& peer, const WantedAdapter& wanted,
                                   const Use& use, const Arrive& arrive) {
  const auto begin = std::chrono::steady_clock::now();
  const auto call = [&](const char* file, const PeerSink& sink) {
    return call_peer(peer, fmt::format("/v1/adapters/{}/{}", wanted.digest, file), options_.api_key,
                     options_.times, sink, stop_);
  };
  std::vector<std::pair<const char*, std::string>> small;  // names and contents
  std::uint64_t small_bytes = 0;
  const auto call_small = [&](const char* file, std::uint64_t max_bytes) {
    std::string text;
    PeerAnswer answer =
        call(file, {.max_bytes = max_bytes, .take = [&](std::string_view bytes) -> Status {
                      text += bytes;
                      return {};
                    }});
    if (answer.kind != PeerAnswer::Kind::ok) return answer;
    small_bytes += text.size();
    small.emplace_back(file, std::move(text));
    return answer;
  };
  PeerAnswer answer = call_small(kPeftConfigName, kMaxPeftConfigBytes);
  if (answer.kind != PeerAnswer::Kind::ok) return answer;
  for (const char* const file : kFilesBeside) {
    // All of them lie in memory until the weights begin.
    const std::uint64_t left = kMaxBesideBytes + kMaxPeftConfigBytes - small_bytes;
    answer = call_small(file, std::min(kMaxBesideBytes, left));
    if (answer.kind != PeerAnswer::Kind::ok && answer.kind != PeerAnswer::Kind::lacks)
      return answer;
  }
  std::unique_ptr<IncomingAdapter> incoming;
  std::optional<Arrival> arrival;  // reads from `incoming`, so it is destroyed first
  PeerSink weights;
  weights.max_bytes = wanted.max_bytes;
  weights.begin = [&](std::uint64_t bytes, bool is_announced) -> Status {
    TANDEM_ASSIGN(incoming, take_room(small_bytes + bytes));
    for (const auto& [file, text] : small) {
      TANDEM_TRY(incoming->begin_file(file));
      TANDEM_TRY(incoming->append(text));
    }
    TANDEM_TRY(incoming->begin_file(kPeftWeightsName));
    if (arrive && is_announced) arrival.emplace(arrive, incoming->folder(), bytes);
    return {};
  };
  weights.take = [&](std::string_view bytes) -> Status {
    TANDEM_TRY(incoming->append(bytes));
    if (arrival) arrival->grow(bytes.size());
    return {};
  };
  answer = call(kPeftWeightsName, weights);
  if (arrival) {
    Status arrived = arrival->end(answer.status);
    if (answer.kind == PeerAnswer::Kind::ok && blames_folder(arrived)) {
      return PeerAnswer::failed(arrived.with_context("what it gives is not the adapter"));
    }
  }
  if (answer.kind != PeerAnswer::Kind::ok) return answer;
  Result<LocalStore::Kept> kept = store_.keep(std::move(incoming), wanted.digest);
  if (!kept) return PeerAnswer::ours(kept.status());
  Status used = use(*kept);
  if (used) {
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    log::info("adapter {} came from {} in {:.2f} s", wanted.digest, peer.text(), took.count());
    return {};
  }
  if (!blames_folder(used)) return PeerAnswer::ours(std::move(used));
  store_.drop(wanted.digest);
  return PeerAnswer::failed(used.with_context("what it gives is not the adapter"));
}

}  // namespace tandem
