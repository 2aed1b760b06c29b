#include "base/dashboard/page.h"

#include <algorithm>

#include "base/dashboard/page_files.h"

namespace tandem {
namespace {

// Scripts and styles are our own files, the page only connects to this server, and no page may
// frame it.
constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const char* type_of(std::string_view name) {
  if (name.ends_with(".html")) return "text/html; charset=utf-8";
  if (name.ends_with(".css")) return "text/css; charset=utf-8";
  if (name.ends_with(".svg")) return "image/svg+xml";
  return "text/javascript; charset=utf-8";
}

const PageFile* find_page_file(std::string_view path) {
  const std::string_view name =
      path == kPagePath ? "index.html" : path.substr(std::min(kPageFolder.size(), path.size()));
  const auto files = page_files();
  const auto found = std::ranges::find(files, name, &PageFile::name);
  return found == files.end() ? nullptr : &*found;
}

}  // namespace

bool is_page_path(std::string_view path) {
  return path == kPagePath || path.starts_with(kPageFolder);
}

HttpResponse page_response(const HttpRequest& request) {
  HttpResponse response;
  const PageFile* const file = find_page_file(request.path);
  if (file == nullptr) {
    response.status = 404;
    response.content_type = "text/plain; charset=utf-8";
    return response;
  }
  response.content_type = type_of(file->name);
  response.headers.emplace_back("ETag", std::string(file->tag));
  // Revalidated each time, which is a one-line answer, so that a replaced server shows its own
  // page.
  response.headers.emplace_back("Cache-Control", "no-cache");
  response.headers.emplace_back("Content-Security-Policy", kPolicy);
  response.headers.emplace_back("X-Content-Type-Options", "nosniff");
  response.headers.emplace_back("Referrer-Policy", "no-referrer");
  if (request.header("if-none-match").find(file->tag) != std::string_view::npos) {
    response.status = 304;
    return response;
  }
  response.body = file->bytes;
  return response;
}

}  // namespace tandem
