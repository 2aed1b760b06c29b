// The measured server.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/http/client/http_client.h"
#include "base/status.h"

namespace tandem {

struct LoadTarget {
  HttpAddress address;
  std::string prefix;  // of all paths; "" or "/..." without a slash at the end
  std::vector<std::pair<std::string, std::string>> headers;  // of each request; may contain a key
};

// Reads "http://HOST[:PORT][/PREFIX]", or https.
Result<LoadTarget> parse_base_url(std::string_view url);

struct ListedModel {
  std::string name;
  bool is_adapter = false;  // true if it names a parent
};

// Returns the models that GET PREFIX/v1/models lists; retries until `patience` is over if nobody
// answers. Empty if the server answers without such a list. Blocks the caller.
Result<std::vector<ListedModel>> ask_models(const LoadTarget& target, Duration patience);

}  // namespace tandem
