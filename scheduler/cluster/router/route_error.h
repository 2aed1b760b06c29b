// Errors that several parts of the router answer with.
#pragma once

#include <string>

#include "base/http/rest/error_envelope.h"

namespace tandem {

ErrorEnvelope nobody_accepts();
ErrorEnvelope unknown_model(const std::string& name);
ErrorEnvelope engines_lost(const std::string& request_id);  // one request lost two engines
ErrorEnvelope weights_gone();                               // for an answer that has begun

}  // namespace tandem
