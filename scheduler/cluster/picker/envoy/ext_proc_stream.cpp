#include "scheduler/cluster/picker/envoy/ext_proc_stream.h"

#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include "base/log/log.h"
#include "scheduler/cluster/picker/envoy/ext_proc_messages.h"

namespace tandem {

bool OpenStreams::enter(const std::shared_ptr<ExtProcStream>& stream) {
  const std::lock_guard lock(mutex_);
  if (!closed_) streams_.emplace(stream.get(), stream);
  return !closed_;
}

void OpenStreams::leave(const ExtProcStream* stream) {
  const std::lock_guard lock(mutex_);
  streams_.erase(stream);
}

void OpenStreams::close_all() {
  std::vector<std::shared_ptr<ExtProcStream>> open;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    for (const auto& [pointer, stream] : streams_) open.push_back(stream.lock());
  }
  for (const auto& stream : open) {
    if (stream != nullptr) stream->close(grpc::Status::OK);
  }
}

ExtProcStream* ExtProcStream::open(PickDesk& desk, std::size_t max_body_bytes, OpenStreams& open) {
  auto stream = std::make_shared<ExtProcStream>(desk, max_body_bytes, open);
  stream->self_ = stream;
  if (open.enter(stream)) {
    stream->StartRead(&stream->request_);
  } else {
    stream->close({grpc::StatusCode::UNAVAILABLE, "the picker ends"});
  }
  return stream.get();
}

ExtProcStream::ExtProcStream(PickDesk& desk, std::size_t max_body_bytes, OpenStreams& open)
    : open_(open), stream_(desk, max_body_bytes) {}

void ExtProcStream::close(const grpc::Status& status) {
  {
    const std::lock_guard lock(mutex_);
    if (finished_) return;
    if (writing_) {
      closing_ = true;
      return;
    }
    finished_ = true;
  }
  Finish(status);
}

// Catches exceptions of a callback: gRPC would discard them, and the stream would never end.
template <typename Step>
void ExtProcStream::guard(Step step) {
  try {
    step();
  } catch (const std::exception& failure) {
    log::error("a stream of external processing is closed: {}", failure.what());
    close({grpc::StatusCode::RESOURCE_EXHAUSTED, "the picker could not go on"});
  }
}

void ExtProcStream::OnReadDone(bool ok) {
  if (!ok) return close(grpc::Status::OK);  // Envoy has finished or is gone
  guard([this] { take_request(); });
}

void ExtProcStream::take_request() {
  replies_.clear();
  written_ = 0;
  switch (stream_.take(event_of(request_), replies_)) {
    case PickStream::Next::go_on:
      break;
    case PickStream::Next::end:
      last_ = true;
      break;
    case PickStream::Next::malformed:
      log::warning("a stream of external processing is closed: its messages are malformed");
      return close({grpc::StatusCode::INVALID_ARGUMENT,
                    "the order is request_headers, request_body, request_trailers, "
                    "response_headers, response_body, response_trailers, each of them known"});
  }
  request_.Clear();
  go_on();
}

void ExtProcStream::OnWriteDone(bool ok) {
  {
    const std::lock_guard lock(mutex_);
    writing_ = false;
  }
  if (!ok) return close(grpc::Status::CANCELLED);
  guard([this] { go_on(); });
}

void ExtProcStream::go_on() {
  bool write = false;
  bool finish = false;
  {
    const std::lock_guard lock(mutex_);
    if (finished_) return;
    write = !closing_ && written_ < replies_.size();
    writing_ = write;
    finish = !write && (closing_ || last_);
    finished_ = finish;
  }
  if (write) {
    try {
      response_ = message_of(std::move(replies_[written_++]));
    } catch (...) {
      const std::lock_guard lock(mutex_);
      writing_ = false;  // so that close() finishes the stream
      throw;
    }
    StartWrite(&response_);
  } else if (finish) {
    Finish(grpc::Status::OK);
  } else {
    StartRead(&request_);  // fails if another thread has finished the stream meanwhile
  }
}

void ExtProcStream::OnDone() {
  open_.leave(this);
  const auto last = std::move(self_);  // keeps the stream alive until here
}

}  // namespace tandem
