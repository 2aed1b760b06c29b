#include "scheduler/cluster/router/route_error.h"

#include <fmt/format.h>

namespace tandem {

ErrorEnvelope nobody_accepts() {
  return {503, "No engine that serves this model accepts requests at the moment", "no_engine", 1};
}

ErrorEnvelope engines_lost(const std::string& request_id) {
  return {502,
          fmt::format("Two engines were lost while they had this request, so it is not sent to "
                      "another; the router's log has it under {}",
                      request_id),
          "engines_lost", 0};
}

ErrorEnvelope weights_gone() {
  return {
      503,
      "No engine has the weights that this answer began with any more, so it cannot continue: the "
      "model or its adapter was replaced, or differs at other engines. Ask again for a new answer",
      "weights_gone", 1};
}

ErrorEnvelope unknown_model(const std::string& name) {
  return {404,
          fmt::format("The model '{}' does not exist. GET /v1/models lists those that do.", name),
          "model_not_found", 0, "model"};
}

}  // namespace tandem
