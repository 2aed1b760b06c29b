// The refusals that several places of the router make.
#pragma once

#include <string>

#include "base/http/rest/error_envelope.h"

namespace tandem {

ErrorEnvelope nobody_accepts();
ErrorEnvelope unknown_model(const std::string& name);
ErrorEnvelope engines_lost(const std::string& request_id);  // two, by one request
ErrorEnvelope weights_gone();                               // of an answer that has begun

}  // namespace tandem
