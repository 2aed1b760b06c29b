// Envoy's messages and ours (scheduler/picker/pick_stream.h).
#pragma once

#include <envoy/service/ext_proc/v3/external_processor.pb.h>

#include "scheduler/picker/pick_stream.h"

namespace tandem {

// Takes the body out of the message. What it says beyond the bounds below, it does not say.
StreamEvent event_of(envoy::service::ext_proc::v3::ProcessingRequest& message);
envoy::service::ext_proc::v3::ProcessingResponse message_of(StreamReply reply);

}  // namespace tandem
