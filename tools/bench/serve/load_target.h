// The server that is measured.
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
  std::string prefix;  // of all its paths; "" or "/..." without a slash at the end
  std::vector<std::pair<std::string, std::string>> headers;  // of each request; may hold a key
};

// "http://HOST[:PORT][/PREFIX]", or https.
Result<LoadTarget> parse_base_url(std::string_view url);

struct ListedModel {
  std::string name;
  bool is_adapter = false;  // it names a parent
};

// What GET PREFIX/v1/models lists, asked again until `patience` is over if nobody answers. Empty if
// the server answers and has no such list. Blocks the caller.
Result<std::vector<ListedModel>> ask_models(const LoadTarget& target, Duration patience);

}  // namespace tandem
