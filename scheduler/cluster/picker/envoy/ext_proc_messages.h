// Conversion between Envoy's messages and the picker's (scheduler/cluster/picker/pick_stream.h).
#pragma once

#include <envoy/service/ext_proc/v3/external_processor.pb.h>

#include "scheduler/cluster/picker/pick_stream.h"

namespace tandem {

// Moves the body out of the message. Content beyond the bounds is ignored.
StreamEvent event_of(envoy::service::ext_proc::v3::ProcessingRequest& message);
envoy::service::ext_proc::v3::ProcessingResponse message_of(StreamReply reply);

}  // namespace tandem
