// The dashboard's page over HTTP: "/" and the files that it names, "/dashboard/NAME". It contains
// no data, so anyone may open it; to read the server's data it asks for the API key.
#pragma once

#include <string_view>

#include "base/http/http_message.h"

namespace tandem {

inline constexpr std::string_view kPagePath = "/";
inline constexpr std::string_view kPageFolder = "/dashboard/";

// True for the page's paths, even if there is no such file. They need no key.
bool is_page_path(std::string_view path);

// Answers GET or HEAD of such a path; 304 if the client has the file already. Status 404 without a
// body: there is no such file.
HttpResponse page_response(const HttpRequest& request);

}  // namespace tandem
