#include "scheduler/cluster/picker/envoy/ext_proc_messages.h"

#include <string>
#include <string_view>
#include <utility>

namespace tandem {
namespace {

namespace ext_proc = envoy::service::ext_proc::v3;
using envoy::config::core::v3::HeaderMap;
using envoy::config::core::v3::Metadata;
using google::protobuf::Struct;
using google::protobuf::Value;
using Mode = envoy::extensions::filters::http::ext_proc::v3::ProcessingMode;

constexpr const char* kSubsetSpace = "envoy.lb.subset_hint";
constexpr const char* kSubset = "x-gateway-destination-endpoint-subset";
constexpr const char* kSpace = "envoy.lb";
constexpr const char* kDestination = "x-gateway-destination-endpoint";
constexpr const char* kServed = "x-gateway-destination-endpoint-served";
constexpr const char* kUpstream = "upstream.address";
// More headers than an engine would accept.
constexpr int kMostHeaders = 256;
constexpr int kMostSubset = 65536;

BodyMode mode_of(Mode::BodySendMode mode) {
  switch (mode) {
    case Mode::NONE:
      return BodyMode::none;
    case Mode::BUFFERED:
      return BodyMode::buffered;
    case Mode::FULL_DUPLEX_STREAMED:
      return BodyMode::full_duplex;
    default:
      return BodyMode::other;
  }
}

void take_headers(const HeaderMap& from, StreamEvent& event) {
  for (const auto& header : from.headers()) {
    if (event.headers.size() >= kMostHeaders) return;
    const std::string& value = header.raw_value().empty() ? header.value() : header.raw_value();
    const auto [place, added] = event.headers.try_emplace(header.key(), value);
    if (!added) place->second.append(", ").append(value);
  }
}

const Value* member(const Struct& fields, const char* name) {
  const auto found = fields.fields().find(name);
  return found == fields.fields().end() ? nullptr : &found->second;
}

const Value* member(const Metadata& metadata, const char* space, const char* name) {
  const auto found = metadata.filter_metadata().find(space);
  return found == metadata.filter_metadata().end() ? nullptr : member(found->second, name);
}

// The value is a list of texts, or a text with commas; anything else selects no endpoint.
void take_subset(const Value& value, std::vector<std::string>& subset) {
  if (value.has_string_value()) {
    std::string_view rest = value.string_value();
    while (!rest.empty() && subset.size() < kMostSubset) {
      const std::size_t comma = rest.find(',');
      if (comma != 0) subset.emplace_back(rest.substr(0, comma));
      rest = comma == std::string_view::npos ? std::string_view{} : rest.substr(comma + 1);
    }
  } else if (value.has_list_value()) {
    for (const Value& one : value.list_value().values()) {
      if (subset.size() >= kMostSubset) return;
      if (one.has_string_value()) subset.push_back(one.string_value());
    }
  }
}

// The protocol puts it in the metadata; Envoy itself sends it as an attribute, if configured.
std::string served_by(const ext_proc::ProcessingRequest& message) {
  const Value* value = member(message.metadata_context(), kSpace, kServed);
  if (value != nullptr && value->has_string_value()) return value->string_value();
  for (const auto& [filter, attributes] : message.attributes()) {
    value = member(attributes, kUpstream);
    if (value != nullptr && value->has_string_value()) return value->string_value();
  }
  return {};
}

void set_header(const char* name, const std::string& value, ext_proc::HeaderMutation& mutation) {
  auto* const option = mutation.add_set_headers();
  option->mutable_header()->set_key(name);
  option->mutable_header()->set_raw_value(value);
  option->set_append_action(envoy::config::core::v3::HeaderValueOption::OVERWRITE_IF_EXISTS_OR_ADD);
}

void refuse_by(const ErrorEnvelope& error, ext_proc::ImmediateResponse& response) {
  response.mutable_status()->set_code(static_cast<envoy::type::v3::StatusCode>(error.status));
  set_header("content-type", "application/json", *response.mutable_headers());
  if (error.retry_after_s > 0) {
    set_header("retry-after", std::to_string(error.retry_after_s), *response.mutable_headers());
  }
  response.set_body(envelope_text(error));
  response.set_details("tandem_" + error.code);
}

}  // namespace

StreamEvent event_of(ext_proc::ProcessingRequest& message) {
  StreamEvent event;
  event.only_shown = message.observability_mode();
  if (message.has_protocol_config()) {
    event.request_mode = mode_of(message.protocol_config().request_body_mode());
    event.response_mode = mode_of(message.protocol_config().response_body_mode());
  }
  const auto take_body = [&](Phase phase, ext_proc::HttpBody& body) {
    event.phase = phase;
    event.body = std::move(*body.mutable_body());
    event.end = body.end_of_stream();
  };
  switch (message.request_case()) {
    case ext_proc::ProcessingRequest::kRequestHeaders:
      event.phase = Phase::request_headers;
      take_headers(message.request_headers().headers(), event);
      event.end = message.request_headers().end_of_stream();
      if (const Value* subset = member(message.metadata_context(), kSubsetSpace, kSubset)) {
        take_subset(*subset, event.subset.emplace());
      }
      break;
    case ext_proc::ProcessingRequest::kRequestBody:
      take_body(Phase::request_body, *message.mutable_request_body());
      break;
    case ext_proc::ProcessingRequest::kRequestTrailers:
      event.phase = Phase::request_trailers;
      break;
    case ext_proc::ProcessingRequest::kResponseHeaders:
      event.phase = Phase::response_headers;
      take_headers(message.response_headers().headers(), event);
      event.end = message.response_headers().end_of_stream();
      event.served = served_by(message);
      break;
    case ext_proc::ProcessingRequest::kResponseBody:
      take_body(Phase::response_body, *message.mutable_response_body());
      break;
    case ext_proc::ProcessingRequest::kResponseTrailers:
      event.phase = Phase::response_trailers;
      break;
    case ext_proc::ProcessingRequest::REQUEST_NOT_SET:
      break;
  }
  return event;
}

ext_proc::ProcessingResponse message_of(StreamReply reply) {
  ext_proc::ProcessingResponse message;
  ext_proc::CommonResponse* common = nullptr;
  switch (reply.phase) {
    case Phase::unknown:
      refuse_by(reply.refused.value_or(ErrorEnvelope{}), *message.mutable_immediate_response());
      return message;
    case Phase::request_headers:
      common = message.mutable_request_headers()->mutable_response();
      break;
    case Phase::request_body:
      common = message.mutable_request_body()->mutable_response();
      break;
    case Phase::request_trailers:
      (void)message.mutable_request_trailers();
      break;
    case Phase::response_headers:
      common = message.mutable_response_headers()->mutable_response();
      break;
    case Phase::response_body:
      common = message.mutable_response_body()->mutable_response();
      break;
    case Phase::response_trailers:
      (void)message.mutable_response_trailers();
      break;
  }
  if (common != nullptr && reply.streamed) {
    auto* const piece = common->mutable_body_mutation()->mutable_streamed_response();
    piece->set_body(std::move(reply.body));
    piece->set_end_of_stream(reply.end);
  }
  if (!reply.endpoints.empty()) {
    if (common != nullptr) {
      set_header(kDestination, reply.endpoints, *common->mutable_header_mutation());
    }
    Value& space = (*message.mutable_dynamic_metadata()->mutable_fields())[kSpace];
    (*space.mutable_struct_value()->mutable_fields())[kDestination].set_string_value(
        reply.endpoints);
  }
  return message;
}

}  // namespace tandem
