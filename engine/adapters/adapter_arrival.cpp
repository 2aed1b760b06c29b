#include "engine/adapters/adapter_arrival.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/file/folder.h"
#include "base/status_copy.h"
#include "engine/adapters/adapter_strips.h"
#include "engine/loader/peft/peft_reader.h"

namespace tandem {

// The reading of one folder.
struct AdapterArrival::Attempt {
  std::shared_ptr<const FileProgress> writing;
  AdapterLease adapter;  // served_, or the adapter that will become it
  AdapterBytes bytes;
  std::shared_ptr<AdapterReading> reading;
  bool shown = false;
  FileProgress::Time shown_at;
};

AdapterArrival::AdapterArrival(AdapterStore& store, std::string name, std::string digest,
                               std::uint64_t bytes, std::function<void(bool)> on_shown,
                               std::chrono::milliseconds longest_shown)
    : store_(store),
      name_(std::move(name)),
      digest_(std::move(digest)),
      bytes_(bytes),
      on_shown_(std::move(on_shown)),
      longest_shown_(longest_shown) {}

AdapterArrival::~AdapterArrival() {
  fail(has_not_come_);
}

Status AdapterArrival::read(const std::filesystem::path& folder,
                            std::shared_ptr<const FileProgress> writing) {
  proven_ = false;
  Attempt attempt;
  attempt.writing = std::move(writing);
  Status status;
  try {
    const Result<std::string> digest = read_arriving_peft_adapter(
        folder, store_.spec_, store_.dtype_, attempt.writing,
        [&](const Adapter& layout) { return begin(attempt, layout); },
        [&](std::size_t layer) { layer_there(attempt, layer); }, store_.options_.links);
    status = digest.status();
    if (digest && *digest != digest_) {
      status = invalid("its folder holds other weights than it should (digest {}, not {})", *digest,
                       digest_);
    }
  } catch (const std::exception&) {
    status = {StatusCode::unavailable, "out of memory"};
  }
  end_attempt(attempt, status);
  proven_ = status.ok() && attempt.shown;
  return status;
}

Result<std::byte*> AdapterArrival::begin(Attempt& attempt, const Adapter& layout) {
  TANDEM_TRY(store_.check(name_, layout));
  if (layout.num_bytes != bytes_) {
    return invalid("its folder holds {} bytes of weights, and should hold {}", layout.num_bytes,
                   bytes_);
  }
  TANDEM_ASSIGN(std::shared_ptr<const Tokenizer> tokenizer, store_.read_tokenizer(name_, layout));
  if (served_ != nullptr &&
      (!same_layout(served_->contents(), layout) || served_->tokenizer() != tokenizer)) {
    return error(StatusCode::resource_exhausted,
                 "its layout or its tokenizer differs from the one that came first");
  }
  TANDEM_ASSIGN(Folder folder, Folder::open(layout.path));
  TANDEM_ASSIGN(attempt.bytes, store_.host_->take(store_.with_words(layout.num_bytes)));
  attempt.reading = std::make_shared<AdapterReading>(layout, attempt.bytes.get(),
                                                     store_.reader_->next_generation());
  attempt.adapter = served_;
  if (served_ == nullptr) {
    Adapter contents = layout;
    contents.path.clear();  // the path is not known yet
    contents.digest = digest_;
    contents.end_tokens = store_.read_end_tokens(layout, tokenizer.get());
    Adapter part = device_layout(layout, store_.spec_, store_.options_.num_devices);
    attempt.adapter = std::make_shared<ServedAdapter>(name_, std::move(contents), std::move(part),
                                                      /*pinned=*/false, /*reloadable=*/true,
                                                      store_.host_, std::move(tokenizer));
    attempt.adapter->home().begin_arriving();
  }
  attempt.adapter->home().set_arriving_folder(std::make_shared<const Folder>(std::move(folder)));
  return attempt.bytes.get();
}

void AdapterArrival::layer_there(Attempt& attempt, std::size_t layer) {
  attempt.reading->layer_there(layer);
  const auto now = std::chrono::steady_clock::now();
  if (attempt.shown || attempt.writing->rest(now) > AdapterReading::kNear) return;
  const bool is_named = store_.show(attempt.adapter);
  if (!is_named && served_ == nullptr) return;  // no request waits for it
  served_ = attempt.adapter;
  attempt.shown = true;
  attempt.shown_at = now;
  attempt.reading->show(longest_shown_);
  attempt.adapter->home().put(attempt.bytes, attempt.reading);
  store_.tell();
  if (is_named) on_shown_(true);
}

// Ends what was shown in any case, as requests wait for it.
void AdapterArrival::end_attempt(const Attempt& attempt, const Status& status) noexcept {
  lead_ = {};
  if (!attempt.shown) return;
  if (status) {
    lead_ = std::max<std::chrono::duration<double>>(
        attempt.writing->last_growth() - attempt.shown_at, lead_);
    attempt.reading->end({});
    if (attempt.reading->state() == AdapterReading::State::bad) {  // the time limit ended it before
      served_->home().take_back({});                               // its end had a reason already
      try {
        served_->home().put(attempt.bytes);
      } catch (const std::exception&) {  // no memory: it will be read from its folder
      }
    }
  } else {
    on_shown_(false);  // first, as a caller that sees it as served looks up the name
    served_->home().take_back(copy_of(status));
  }
  store_.tell();
}

bool AdapterArrival::is_served() const {
  return proven_ && (served_->retired() || store_.find(name_) == served_);
}

std::weak_ptr<const ServedAdapter> AdapterArrival::settle(const std::string& path) {
  if (served_ == nullptr) return {};
  served_->home().set_folder({path, nullptr});
  if (lead_.count() > 0 && proven_) store_.early_arrivals_.fetch_add(1, std::memory_order_relaxed);
  served_->home().end_reading({});
  if (store_.find(name_) != served_) store_.retire(served_);
  std::weak_ptr<const ServedAdapter> reader = served_;
  served_.reset();
  store_.tell();
  return reader;
}

void AdapterArrival::fail(const Status& why) noexcept {
  if (served_ == nullptr) return;
  store_.hide(served_);
  store_.retire(served_);
  served_->home().end_reading(copy_of(why));
  served_.reset();
  store_.tell();
  on_shown_(false);
}

}  // namespace tandem
