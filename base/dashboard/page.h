// The dashboard's page over HTTP: "/" and the files that it names, "/dashboard/NAME". It holds no
// data: whoever may open it may read nothing of the server by that, and it asks for the API key.
#pragma once

#include <string_view>

#include "base/http/http_message.h"

namespace tandem {

inline constexpr std::string_view kPagePath = "/";
inline constexpr std::string_view kPageFolder = "/dashboard/";

// One of the page's, be there such a file or not: for everybody, without a key.
bool is_page_path(std::string_view path);

// Of GET or HEAD of such a path; 304 to who has it already. Status 404 without a body: there is no
// such file.
HttpResponse page_response(const HttpRequest& request);

}  // namespace tandem
