// One stream of external processing on gRPC's callbacks; PickStream implements the protocol.
//
// One operation at a time: a message is read, its answers are written one after the other, and then
// the next message is read. So nothing accumulates for a peer that does not read, and streams share
// gRPC's threads.
#pragma once

#include <envoy/service/ext_proc/v3/external_processor.grpc.pb.h>
#include <grpcpp/grpcpp.h>

#include <cstddef>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "scheduler/cluster/picker/pick_stream.h"

namespace tandem {

class ExtProcStream;

// The streams that are open. Thread-safe.
class OpenStreams {
 public:
  // False: the streams are closed and no new one is accepted.
  bool enter(const std::shared_ptr<ExtProcStream>& stream);
  void leave(const ExtProcStream* stream);
  // Ends each stream with OK: Envoy continues by itself with requests that have an engine.
  void close_all();

 private:
  std::mutex mutex_;
  bool closed_ = false;
  std::unordered_map<const ExtProcStream*, std::weak_ptr<ExtProcStream>> streams_;
};

class ExtProcStream final
    : public grpc::ServerBidiReactor<envoy::service::ext_proc::v3::ProcessingRequest,
                                     envoy::service::ext_proc::v3::ProcessingResponse> {
 public:
  // `desk` and `open` outlive it. It lives until gRPC has finished with it.
  static ExtProcStream* open(PickDesk& desk, std::size_t max_body_bytes, OpenStreams& open);
  ExtProcStream(PickDesk& desk, std::size_t max_body_bytes, OpenStreams& open);

  void close(const grpc::Status& status);  // only the first call has an effect; thread-safe

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone() override;

 private:
  // Closes the stream if the step throws.
  template <typename Step>
  void guard(Step step);
  void take_request();
  // Writes the next answer, or reads the next message, or ends the stream.
  void go_on();

  OpenStreams& open_;
  PickStream stream_;
  envoy::service::ext_proc::v3::ProcessingRequest request_;
  envoy::service::ext_proc::v3::ProcessingResponse response_;
  std::vector<StreamReply> replies_;
  std::size_t written_ = 0;  // number of replies_ that are written
  bool last_ = false;        // the stream ends after these replies
  std::shared_ptr<ExtProcStream> self_;
  // No operation is started under the lock, because gRPC may call back before it returns.
  std::mutex mutex_;
  bool writing_ = false;   // guarded by mutex_
  bool closing_ = false;   // guarded by mutex_: the stream ends after the current write
  bool finished_ = false;  // guarded by mutex_
};

}  // namespace tandem
