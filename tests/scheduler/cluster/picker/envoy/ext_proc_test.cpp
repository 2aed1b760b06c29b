// The service over real gRPC, with messages as Envoy sends them and others.
#include <envoy/service/ext_proc/v3/external_processor.grpc.pb.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/log/log.h"
#include "scheduler/cluster/picker/envoy/ext_proc_server.h"

namespace tandem {
namespace {

namespace ext_proc = envoy::service::ext_proc::v3;
using Mode = envoy::extensions::filters::http::ext_proc::v3::ProcessingMode;
using Process = grpc::ClientReaderWriter<ext_proc::ProcessingRequest, ext_proc::ProcessingResponse>;

class FakeChooser final : public PickDesk {
 public:
  Pick pick(const PickRequest& request) override {
    const std::lock_guard lock(mutex);
    last = request;
    Pick pick;
    if (request.body == "refuse") {
      pick.refused = ErrorEnvelope{429, "full", "engines_full", 2};
    } else {
      pick.id = ++picked;
      pick.endpoints = "10.0.0.1:1,10.0.0.1:2";
    }
    return pick;
  }
  void served(PickId, std::string_view endpoint) override {
    const std::lock_guard lock(mutex);
    told = endpoint;
  }
  void over(PickId, bool) override { ++overs; }

  std::mutex mutex;
  PickRequest last;
  std::string told;
  std::atomic<PickId> picked{0};
  std::atomic<int> overs{0};
};

class ExtProc : public ::testing::Test {
 protected:
  ExtProc() : server_({"127.0.0.1", 0, 1 << 20}, desk_) {
    log::set_level(log::Level::off);
    const Status started = server_.start();
    EXPECT_TRUE(started) << started.message();
    channel_ = grpc::CreateChannel("127.0.0.1:" + std::to_string(server_.port()),
                                   grpc::InsecureChannelCredentials());
    stub_ = ext_proc::ExternalProcessor::NewStub(channel_);
  }
  ~ExtProc() override { log::set_level(log::Level::info); }

  bool all_over() {
    for (int i = 0; i < 5000 && desk_.overs < static_cast<int>(desk_.picked); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return desk_.overs == static_cast<int>(desk_.picked);
  }
  // Returns 0 for an unknown service, else the health protocol's status: 1 serving, 2 not serving.
  int health(const std::string& service) {
    grpc::GenericStub stub(channel_);
    grpc::ClientContext context;
    grpc::CompletionQueue queue;
    const std::string asked =
        service.empty() ? "" : std::string("\x0a") + static_cast<char>(service.size()) + service;
    const grpc::Slice slice(asked);
    const grpc::ByteBuffer request(&slice, 1);
    const auto call =
        stub.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check", request, &queue);
    call->StartCall();
    grpc::ByteBuffer answer;
    grpc::Status status;
    call->Finish(&answer, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    (void)queue.Next(&tag, &ok);
    if (!status.ok()) return 0;
    std::vector<grpc::Slice> slices;
    EXPECT_TRUE(answer.Dump(&slices).ok());
    std::string bytes;
    for (const grpc::Slice& one : slices) bytes.append(one.begin(), one.end());
    return bytes.size() == 2 && bytes[0] == 8 ? bytes[1] : -1;
  }

  FakeChooser desk_;
  ExtProcServer server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<ext_proc::ExternalProcessor::Stub> stub_;
};

ext_proc::ProcessingRequest head(Mode::BodySendMode mode) {
  ext_proc::ProcessingRequest message;
  message.mutable_protocol_config()->set_request_body_mode(mode);
  message.mutable_protocol_config()->set_response_body_mode(mode);
  auto* const header = message.mutable_request_headers()->mutable_headers()->add_headers();
  header->set_key(":path");
  header->set_raw_value("/v1/completions");
  return message;
}

ext_proc::ProcessingRequest body(const std::string& bytes, bool end) {
  ext_proc::ProcessingRequest message;
  message.mutable_request_body()->set_body(bytes);
  message.mutable_request_body()->set_end_of_stream(end);
  return message;
}

void expect_endpoints(const ext_proc::ProcessingResponse& message,
                      const ext_proc::CommonResponse& common) {
  ASSERT_EQ(common.header_mutation().set_headers_size(), 1);
  const auto& header = common.header_mutation().set_headers(0).header();
  EXPECT_EQ(header.key(), "x-gateway-destination-endpoint");
  EXPECT_EQ(header.raw_value(), "10.0.0.1:1,10.0.0.1:2");
  EXPECT_EQ(message.dynamic_metadata()
                .fields()
                .at("envoy.lb")
                .struct_value()
                .fields()
                .at("x-gateway-destination-endpoint")
                .string_value(),
            "10.0.0.1:1,10.0.0.1:2");
}

TEST_F(ExtProc, NamesTheEndpointsInHeaderAndMetadata) {
  grpc::ClientContext context;
  const auto stream = stub_->Process(&context);
  ext_proc::ProcessingResponse answer;
  auto first = head(Mode::BUFFERED);
  auto& space =
      (*first.mutable_metadata_context()->mutable_filter_metadata())["envoy.lb.subset_hint"];
  auto* const list =
      (*space.mutable_fields())["x-gateway-destination-endpoint-subset"].mutable_list_value();
  list->add_values()->set_string_value("10.0.0.1:2");
  ASSERT_TRUE(stream->Write(first));
  ASSERT_TRUE(stream->Read(&answer));
  EXPECT_TRUE(answer.has_request_headers());
  EXPECT_FALSE(answer.has_dynamic_metadata());
  ASSERT_TRUE(stream->Write(body("{}", true)));
  ASSERT_TRUE(stream->Read(&answer));
  expect_endpoints(answer, answer.request_body().response());
  EXPECT_EQ(desk_.last.subset, std::vector<std::string>{"10.0.0.1:2"});
  EXPECT_EQ(desk_.last.headers[":path"], "/v1/completions");

  ext_proc::ProcessingRequest response;
  (void)response.mutable_response_headers();
  auto& served = (*response.mutable_metadata_context()->mutable_filter_metadata())["envoy.lb"];
  (*served.mutable_fields())["x-gateway-destination-endpoint-served"].set_string_value(
      "10.0.0.1:2");
  ASSERT_TRUE(stream->Write(response));
  ASSERT_TRUE(stream->Read(&answer));
  EXPECT_TRUE(answer.has_response_headers());
  EXPECT_EQ(desk_.told, "10.0.0.1:2");
  stream->WritesDone();
  EXPECT_FALSE(stream->Read(&answer));
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_TRUE(all_over());
}

TEST_F(ExtProc, GivesAStreamedBodyBack) {
  grpc::ClientContext context;
  const auto stream = stub_->Process(&context);
  const std::string whole(200'000, 'x');
  ASSERT_TRUE(stream->Write(head(Mode::FULL_DUPLEX_STREAMED)));
  ASSERT_TRUE(stream->Write(body(whole.substr(0, 150'000), false)));
  ASSERT_TRUE(stream->Write(body(whole.substr(150'000), true)));
  ext_proc::ProcessingResponse answer;
  ASSERT_TRUE(stream->Read(&answer));
  expect_endpoints(answer, answer.request_headers().response());
  std::string back;
  bool end = false;
  while (!end && stream->Read(&answer)) {
    const auto& piece = answer.request_body().response().body_mutation().streamed_response();
    EXPECT_LE(piece.body().size(), 64U << 10);
    back += piece.body();
    end = piece.end_of_stream();
  }
  EXPECT_EQ(back, whole);
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(ExtProc, RefusesAtOnceAndEnds) {
  grpc::ClientContext context;
  const auto stream = stub_->Process(&context);
  ASSERT_TRUE(stream->Write(head(Mode::FULL_DUPLEX_STREAMED)));
  ASSERT_TRUE(stream->Write(body("refuse", true)));
  ext_proc::ProcessingResponse answer;
  ASSERT_TRUE(stream->Read(&answer));
  ASSERT_TRUE(answer.has_immediate_response());
  EXPECT_EQ(answer.immediate_response().status().code(), 429);
  EXPECT_NE(answer.immediate_response().body().find("engines_full"), std::string::npos);
  const auto& headers = answer.immediate_response().headers();
  ASSERT_EQ(headers.set_headers_size(), 2);
  EXPECT_EQ(headers.set_headers(1).header().key(), "retry-after");
  EXPECT_EQ(headers.set_headers(1).header().raw_value(), "2");
  EXPECT_FALSE(stream->Read(&answer));
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(ExtProc, ClosesStreamsThatMakeNoSense) {
  grpc::ClientContext context;
  const auto stream = stub_->Process(&context);
  ASSERT_TRUE(stream->Write(body("{}", true)));
  ext_proc::ProcessingResponse answer;
  EXPECT_FALSE(stream->Read(&answer));
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);

  // Bytes that are no message.
  grpc::GenericStub raw(channel_);
  grpc::ClientContext raw_context;
  grpc::CompletionQueue queue;
  const auto call =
      raw.PrepareCall(&raw_context, "/envoy.service.ext_proc.v3.ExternalProcessor/Process", &queue);
  void* tag = nullptr;
  bool ok = false;
  call->StartCall(nullptr);
  (void)queue.Next(&tag, &ok);
  const grpc::Slice garbage("\xff\xff\xff\xff garbage");
  call->Write(grpc::ByteBuffer(&garbage, 1), nullptr);
  (void)queue.Next(&tag, &ok);
  grpc::Status status;
  call->Finish(&status, nullptr);
  (void)queue.Next(&tag, &ok);
  EXPECT_EQ(desk_.picked, 0U);
}

TEST_F(ExtProc, LetsGoOfClientsThatVanish) {
  for (int i = 0; i < 50; ++i) {
    grpc::ClientContext context;
    const auto stream = stub_->Process(&context);
    (void)stream->Write(head(Mode::FULL_DUPLEX_STREAMED));
    if (i % 5 != 0) (void)stream->Write(body("{}", i % 5 > 1));
    ext_proc::ProcessingResponse answer;
    if (i % 5 > 2) (void)stream->Read(&answer);
    context.TryCancel();
    (void)stream->Finish();
  }
  EXPECT_TRUE(all_over());
}

TEST_F(ExtProc, SaysHowItIs) {
  EXPECT_EQ(health("liveness"), 1);
  EXPECT_EQ(health("readiness"), 2);
  EXPECT_EQ(health(""), 2);
  EXPECT_EQ(health("nobody"), 0);
  server_.set_ready(true);
  EXPECT_EQ(health(""), 1);
  EXPECT_EQ(health("envoy.service.ext_proc.v3.ExternalProcessor"), 1);
  server_.set_ready(false);
  EXPECT_EQ(health("readiness"), 2);
  EXPECT_EQ(health("liveness"), 1);
}

// Envoy then handles the request itself, so the stream ends without an error.
TEST_F(ExtProc, EndsOpenStreamsWellWhenItStops) {
  grpc::ClientContext context;
  const auto stream = stub_->Process(&context);
  ASSERT_TRUE(stream->Write(head(Mode::BUFFERED)));
  ext_proc::ProcessingResponse answer;
  ASSERT_TRUE(stream->Read(&answer));
  server_.stop();
  EXPECT_FALSE(stream->Read(&answer));
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(ExtProc, SaysWhyItCannotListen) {
  ExtProcServer second({"127.0.0.1", server_.port(), 1 << 20}, desk_);
  const Status status = second.start();
  ASSERT_FALSE(status);
  EXPECT_NE(status.message().find("Address already in use"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace tandem
