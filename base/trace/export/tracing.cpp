#include "base/trace/export/tracing.h"

#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/log/log.h"
#include "base/trace/chrome_trace.h"
#include "base/trace/export/otlp_exporter.h"
#include "base/trace/tracer.h"

namespace tandem {
namespace {

// A ring holds 2,048 spans, so a thread may record 40,000 per second.
constexpr std::chrono::milliseconds kTurn{50};

}  // namespace

struct Tracing::Impl {
  std::unique_ptr<ChromeTraceFile> file;   // null: no file
  std::unique_ptr<OtlpExporter> exporter;  // null: no exporter
  std::mutex mutex;
  std::condition_variable stop;
  bool is_stopping = false;  // guarded by mutex
  std::vector<Span> spans;   // used by the thread
  std::thread thread;

  void run() {
    std::unique_lock lock(mutex);
    while (!is_stopping) {
      stop.wait_for(lock, kTurn, [this] { return is_stopping; });
      lock.unlock();
      give_on();
      lock.lock();
    }
  }

  // If there is no memory the spans are lost: the traced work is worth more than its trace.
  void give_on() noexcept {
    spans.clear();
    try {
      give_on_all();
    } catch (const std::exception&) {
      trace::counts().dropped.fetch_add(spans.size(), std::memory_order_relaxed);
    }
  }
  void give_on_all() {
    trace::take(spans);
    if (spans.empty()) return;
    if (exporter != nullptr) exporter->add(spans);
    if (file == nullptr) return;
    const Status written = file->write(spans);
    if (!written) log::warning("{}", written.message());
    auto& counter = written.ok() ? trace::counts().written : trace::counts().not_written;
    counter.fetch_add(spans.size(), std::memory_order_relaxed);
    if (!written) file.reset();
  }
};

Tracing::Tracing(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {
  impl_->thread = std::thread([this] { impl_->run(); });
}

Result<std::unique_ptr<Tracing>> Tracing::create(const TracingOptions& options) {
  if (options.file.empty() && options.otlp_endpoint.empty()) return std::unique_ptr<Tracing>();
  auto impl = std::make_unique<Impl>();
  if (!options.file.empty()) {
    TANDEM_ASSIGN(impl->file,
                  ChromeTraceFile::create(options.file, options.max_file_bytes, options.service));
  }
  if (!options.otlp_endpoint.empty()) {
    auto made = OtlpExporter::create(options.otlp_endpoint, {options.service, options.instance,
                                                             options.version, monotonic_epoch()});
    if (!made) return made.status().with_context("otlp_endpoint");
    impl->exporter = std::move(*made);
  }
  std::unique_ptr<Tracing> tracing(new Tracing(std::move(impl)));
  trace::switch_on(options.sample);
  return tracing;
}

Tracing::~Tracing() {
  trace::switch_off();
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->is_stopping = true;
  }
  impl_->stop.notify_all();
  impl_->thread.join();
  impl_->give_on();  // passes on the spans recorded during the last pass
}

}  // namespace tandem
